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
	rounds   transport.Rounds[*cleanup]
	last     bool // no try follows; set while there is no round

	mu    sync.Mutex // protects the following
	tasks *timing.Schedule[*cleanup]
}

const (
	placeLife    = 15 * time.Second // how long an entry in a queue lasts that nobody looks after: the queue expires
	pipelineMost = 1000             // releases in one pipeline

	// After the first try the next follows after firstDelay, and each after four times as long.
	// While Redis does not answer, a try follows every 2 s at least. Once it has answered, that
	// would be too much: a crowd of cancelled calls must not become twenty times as many scripts.
	firstDelay = 10 * time.Millisecond
)

// cleanup is one hold to release.
type cleanup struct {
	lease *Lease
	timer timing.Timer[*cleanup] // of the next try
	delay time.Duration          // from the last try to the next one
	until int64                  // when the lease has expired
	place int64                  // when an entry in a queue has
	last  error                  // of Redis
	heard bool                   // Redis has answered the last try
	then  func(error)            // called at the end of the lease, unless nil

	// doubt: a request that got no reply may be executed after its release. Until then, only a
	// release that finds the hold proves it gone.
	doubt int64
}

func (t *cleanup) lockName() string { return t.lease.Keys.Name }

// NewCleaner returns a cleaner without tasks. Once ctx has ended it sends nothing.
func NewCleaner(ctx context.Context, p *wire.Protocol, clock *clock.Clock, stopping <-chan struct{}) *Cleaner {
	c := &Cleaner{ctx: ctx, proto: p, clock: clock, stopping: stopping}
	c.tasks = timing.NewSchedule[*cleanup](clock, &c.mu)
	c.rounds = transport.Rounds[*cleanup]{Conn: p.Conn, Key: (*cleanup).lockName, Do: c.release, Kick: c.tasks.Kick}
	return c
}

// Wake makes the cleaner look for releases that another node may be sent now.
func (c *Cleaner) Wake() { timing.Signal(c.tasks.Kick) }

// Add releases l soon, and again at growing intervals, until it is known to be gone or its lease
// has expired, or Run ends. Then, or when Redis refuses it for good, it calls then, unless that is
// nil, with the last error of Redis if the hold may still be there. If l is indeterminate, a
// release that finds nothing proves nothing. While Redis returns errors it is tried for longer: l
// may have an entry in a queue, which would cost those behind it a grant timeout.
func (c *Cleaner) Add(l *Lease, indeterminate bool, then func(error)) {
	doubt := time.Duration(0)
	if indeterminate {
		doubt = l.Length
	}
	c.add(l, doubt, then)
}

// AddTicket is Add for the ticket l, which a request that got no reply may still give the hold on
// from, while that lasts: its lease is not renewed.
func (c *Cleaner) AddTicket(l, from *Lease) { c.add(l, min(l.Length, from.Length), nil) }

// add is Add for a lease that a request may acquire until doubt from now.
func (c *Cleaner) add(l *Lease, doubt time.Duration, then func(error)) {
	now := c.clock.Now()
	until := now + int64(l.Length)
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &cleanup{
		lease: l, until: until, place: max(until, now+int64(placeLife)),
		then: then, doubt: now + int64(doubt),
	}
	t.timer.For = t
	c.tasks.Set(&t.timer, now)
}

// Run releases until stopping is closed, and then tries once more what is left.
func (c *Cleaner) Run() {
	c.tasks.Run(c.stopping, c.rounds.Next)
	left := c.rounds.Wait()
	c.mu.Lock()
	left = append(left, c.tasks.Take(Forever)...)
	c.mu.Unlock()
	c.last = true
	c.rounds.Next(left)
	c.rounds.Wait()
}

// release sends the releases and, unless this is the last try, schedules what is to be tried again.
func (c *Cleaner) release(due []*cleanup) {
	bound := time.Second
	if c.last {
		bound = 200 * time.Millisecond
	}
	ctx, cancel := timing.Within(c.ctx, bound)
	defer cancel()
	for some := range slices.Chunk(due, pipelineMost) {
		refs := make([]*wire.Ref, len(some))
		for i, t := range some {
			refs[i] = t.lease.ToRelease(c.clock.Now())
		}
		told, errs := c.proto.ReleaseAll(ctx, refs)
		for i, t := range some {
			c.answered(t, told[i], errs[i], errs[i] != nil && !RetryRelease(errs[i]) && ctx.Err() == nil)
		}
	}
}

// answered follows up the answer to a release. One that Redis refuses for good is tried again as
// well, since somebody may act, but nobody waits for that.
func (c *Cleaner) answered(t *cleanup, told int64, err error, refused bool) {
	now := c.clock.Now()
	if err == nil || t.last == nil || !transport.IsContextError(err) {
		t.last = err
	}
	over := c.last || err == nil && (told >= 0 || now >= t.doubt)
	if t.then != nil && (over || refused || now >= t.until) {
		t.then(t.last)
		t.then = nil
	}
	if over || now >= t.place {
		return
	}
	if t.delay *= 4; t.delay == 0 || t.heard != (err == nil) {
		t.delay = firstDelay
	} else if err != nil {
		t.delay = min(t.delay, 2*time.Second)
	}
	t.heard = err == nil
	at := now + int64(timing.Jitter(t.delay))
	if t.heard {
		at = min(at, t.doubt)
	}
	c.mu.Lock()
	c.tasks.Set(&t.timer, at)
	c.mu.Unlock()
}

// RetryRelease reports whether a release that failed with err may succeed later. A server that
// has no memory refuses writes for a while.
func RetryRelease(err error) bool {
	code, _ := transport.Code(err)
	return code == "OOM" || transport.Transient(err)
}
