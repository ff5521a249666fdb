package lease

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// A Cleaner releases in the background what no call waits for: acquisitions that were cancelled
// in flight or got no reply, holds granted to a cancelled call, and lost holds whose key may
// outlive their deadline. One goroutine serves all, in a cluster with one more for each node
// that has a round under way.
type Cleaner struct {
	ctx      context.Context // bounds all releases
	proto    *wire.Protocol
	clock    *clock.Clock
	stopping <-chan struct{} // ends the goroutine
	kick     chan struct{}   // signals that tasks has grown, or a round has ended
	releases transport.Rounds[*cleanup]

	mu    sync.Mutex // protects the following
	tasks []*cleanup
}

// placeLife is how long a place in a queue lasts that nobody looks after: the queue expires.
const placeLife = 15 * time.Second

// cleanup is one hold to release.
type cleanup struct {
	lease *Lease
	next  int64         // when to try
	delay time.Duration // from that try to the next
	until int64         // when the lease has expired
	place int64         // when a place in a queue has
	then  func()        // called at the end of the lease, unless nil

	// indeterminate: a request that got no reply may be executed after its release. Until the
	// lease has expired, only a release that finds the hold proves it gone.
	indeterminate bool
}

func (t *cleanup) lockName() string { return t.lease.Keys.Name }

// NewCleaner returns a cleaner without tasks. Once ctx has ended it sends nothing.
func NewCleaner(ctx context.Context, p *wire.Protocol, clock *clock.Clock, stopping <-chan struct{}) *Cleaner {
	c := &Cleaner{ctx: ctx, proto: p, clock: clock, stopping: stopping, kick: make(chan struct{}, 1)}
	c.releases = transport.Rounds[*cleanup]{Conn: p.Conn, Key: (*cleanup).lockName, Do: c.round, Kick: c.kick}
	return c
}

// Wake makes the cleaner look for releases that another node may be sent now.
func (c *Cleaner) Wake() { timing.Signal(c.kick) }

// Add releases l soon, and again at growing intervals, until it is known to be gone or its lease
// has expired. Then it calls then, unless that is nil. If l is indeterminate, a release that
// finds nothing proves nothing. While Redis does not answer, or has no memory, it is tried for
// longer: l may have a place in a queue, which would cost those behind it a claim.
func (c *Cleaner) Add(l *Lease, indeterminate bool, then func()) {
	now := c.clock.Now()
	t := &cleanup{lease: l, next: now, delay: time.Millisecond, indeterminate: indeterminate, then: then}
	t.until = now + int64(l.Length)
	t.place = max(t.until, now+int64(placeLife))
	c.mu.Lock()
	c.tasks = append(c.tasks, t)
	c.mu.Unlock()
	timing.Signal(c.kick)
}

// Run releases until stopping is closed, and then tries once more what is left.
func (c *Cleaner) Run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(c.work())
		select {
		case <-timer.C:
		case <-c.kick:
		case <-c.stopping:
			left := c.releases.Wait()
			left = append(left, c.due(Forever)...)
			transport.EachNode(c.proto.Conn, left, (*cleanup).lockName, func(some []*cleanup) { c.release(some, true) })
			return
		}
	}
}

// work starts the releases that are due, and returns how long to sleep.
func (c *Cleaner) work() time.Duration {
	c.releases.Next(c.due(c.clock.Now()))
	c.mu.Lock()
	defer c.mu.Unlock()
	sleep := time.Hour
	for _, t := range c.tasks {
		sleep = min(sleep, time.Duration(max(0, t.next-c.clock.Now())))
	}
	return sleep
}

// due removes and returns the tasks that are due.
func (c *Cleaner) due(now int64) (due []*cleanup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tasks = slices.DeleteFunc(c.tasks, func(t *cleanup) bool {
		if t.next <= now {
			due = append(due, t)
			return true
		}
		return false
	})
	return due
}

// round tries once to release what is due.
func (c *Cleaner) round(due []*cleanup) {
	again := c.release(due, false)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tasks = append(c.tasks, again...)
}

// release sends the releases in one pipeline, and returns the tasks to try again; none if this
// is the last try.
func (c *Cleaner) release(due []*cleanup, last bool) (again []*cleanup) {
	if len(due) == 0 {
		return nil
	}
	bound := time.Second
	if last {
		bound = 200 * time.Millisecond
	}
	ctx, cancel := timing.Within(c.ctx, bound)
	defer cancel()
	leases := make([]*Lease, len(due))
	for i, t := range due {
		leases[i] = t.lease
	}
	told, errs := c.proto.ReleaseAll(ctx, Refs(leases))
	now := c.clock.Now()
	for i, t := range due {
		gone := errs[i] == nil && (told[i] >= 0 || !t.indeterminate)
		refused := errs[i] != nil && !RetryRelease(errs[i]) && ctx.Err() == nil
		end := gone || last || refused
		if t.then != nil && (end || now >= t.until) {
			t.then()
			t.then = nil
		}
		if end || now >= t.place || now >= t.until && errs[i] == nil {
			continue
		}
		t.next = now + int64(timing.Jitter(t.delay))
		t.delay = min(4*t.delay, 2*time.Second)
		again = append(again, t)
	}
	return again
}

// RetryRelease reports whether a release that failed with err may succeed later. A server that
// cannot save, or has no memory, refuses writes for a while.
func RetryRelease(err error) bool {
	if code, ok := transport.Code(err); ok && (code == "MISCONF" || code == "OOM") {
		return true
	}
	return transport.Transient(err)
}
