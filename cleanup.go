package relock

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// cleaner releases in the background what nobody waits for: acquisitions that were
// cancelled in flight or got no reply, holds that a cancelled call was granted, and
// lost holds whose key may live a little longer. One goroutine serves them all.
type cleaner struct {
	s    *Session
	kick chan struct{}

	mu    sync.Mutex // protects the following
	tasks []*cleanup
}

// cleanup is one hold to be released.
type cleanup struct {
	lease *lease
	next  int64         // when to try
	delay time.Duration // until the try after that
	until int64         // when the lease has ended by itself
	then  func()        // called when the hold is gone; may be nil

	// An attempt that got no reply may be executed later than its release: to find
	// nothing is no proof then.
	unclear bool
}

func newCleaner(s *Session) *cleaner {
	return &cleaner{s: s, kick: make(chan struct{}, 1)}
}

// add releases l soon, and again at growing intervals until it is known to be gone
// or its lease has passed. then is called at the end.
func (c *cleaner) add(l *lease, unclear bool, then func()) {
	now := c.s.clock.now()
	t := &cleanup{lease: l, next: now, delay: time.Millisecond, unclear: unclear, then: then}
	t.until = now + int64(l.length)
	c.mu.Lock()
	c.tasks = append(c.tasks, t)
	c.mu.Unlock()
	wake(c.kick)
}

// run works until the session stops, and then tries once more whatever is left.
func (c *cleaner) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(c.work(false))
		select {
		case <-timer.C:
		case <-c.kick:
		case <-c.s.stopping:
			c.work(true)
			return
		}
	}
}

// work does what is due, or everything for the last time, and returns how long to
// sleep.
func (c *cleaner) work(last bool) time.Duration {
	now := c.s.clock.now()
	c.mu.Lock()
	tasks := c.tasks
	c.tasks = nil
	c.mu.Unlock()
	var due, later []*cleanup
	for _, t := range tasks {
		if last || t.next <= now {
			due = append(due, t)
		} else {
			later = append(later, t)
		}
	}
	later = append(later, c.release(due, last)...)

	c.mu.Lock()
	defer c.mu.Unlock()
	c.tasks = append(c.tasks, later...)
	sleep := time.Hour
	for _, t := range c.tasks {
		sleep = min(sleep, time.Duration(max(0, t.next-c.s.clock.now())))
	}
	return sleep
}

// release sends the releases in one pipeline and returns those to be tried again.
func (c *cleaner) release(due []*cleanup, last bool) (again []*cleanup) {
	if len(due) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	bound := time.Second
	if last {
		bound = 200 * time.Millisecond
	}
	defer time.AfterFunc(bound, cancel).Stop()
	leases := make([]*lease, len(due))
	for i, t := range due {
		leases[i] = t.lease
	}
	told, errs := c.s.proto.releaseAll(ctx, leases)
	now := c.s.clock.now()
	for i, t := range due {
		gone := errs[i] == nil && (told[i] >= 0 || !t.unclear)
		if gone || last || now >= t.until || errs[i] != nil && !transient(errs[i]) && ctx.Err() == nil {
			if t.then != nil {
				t.then()
			}
			continue
		}
		t.next = now + int64(jitter(t.delay))
		t.delay = min(4*t.delay, 2*time.Second)
		again = append(again, t)
	}
	return again
}

// jitter returns a time from half to one and a half of d.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d/2 + rand.N(d)
}
