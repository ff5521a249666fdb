package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
)

const (
	closeLeast  = 100 * time.Millisecond // that Redis gets even if ctx has ended
	leaveMost   = 100 * time.Millisecond // for goroutines to end that rueidis does not hold up
	releaseMost = 5 * time.Second        // for the releases
	strayMost   = 2 * time.Second        // for calls inside rueidis: on a connection that hangs nothing ends them
)

// tasks are calls, or goroutines, that Close waits for, while others begin and as long as it may.
// Only one goroutine may call wait.
type tasks struct {
	n    atomic.Int64
	none chan struct{} // signals that n may be 0
}

func newTasks() tasks { return tasks{none: make(chan struct{}, 1)} }

// done ends one that was added to n.
func (t *tasks) done() {
	if t.n.Add(-1) == 0 {
		timing.Signal(t.none)
	}
}

// Go runs f in a goroutine.
func (t *tasks) Go(f func()) {
	t.n.Add(1)
	go func() { // wait waits for it
		defer t.done()
		f()
	}()
}

// wait blocks until none is left, or enough is closed.
func (t *tasks) wait(enough <-chan struct{}) {
	for t.n.Load() > 0 {
		select {
		case <-t.none:
		case <-enough:
			return
		}
	}
}

// leftovers are leases that nobody has and that are not released yet.
type leftovers struct {
	mu     sync.Mutex             // protects the following
	leases map[*lease.Lease]error // and why they are not, if that is known
	busy   int                    // how many of them are being released
	none   chan struct{}          // signals that busy may be 0
}

func newLeftovers() leftovers {
	return leftovers{leases: make(map[*lease.Lease]error), none: make(chan struct{}, 1)}
}

// wait blocks until nothing is being released, or enough is closed.
func (o *leftovers) wait(enough <-chan struct{}) {
	for {
		o.mu.Lock()
		busy := o.busy
		o.mu.Unlock()
		if busy == 0 {
			return
		}
		select {
		case <-o.none:
		case <-enough:
			return
		}
	}
}

// leave notes that l is being released in the background.
func (o *leftovers) leave(l *lease.Lease) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.leases[l] = nil
	o.busy++
}

// over notes that l is released, or if keep, why it is not.
func (o *leftovers) over(l *lease.Lease, err error, keep bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if delete(o.leases, l); err != nil && keep {
		o.leases[l] = err
	}
	if o.busy--; o.busy == 0 {
		timing.Signal(o.none)
	}
}

// Leave implements acquire.Background.
func (s *Session) Leave(l *lease.Lease) { s.left.leave(l) }

// Over implements acquire.Background.
func (s *Session) Over(l *lease.Lease, err error) { s.left.over(l, err, s.Closed()) }

// Begin implements acquire.Calls.
func (s *Session) Begin() bool {
	s.Track()
	if s.Closed() {
		s.End()
		return false
	}
	return true
}

// Track implements acquire.Calls.
func (s *Session) Track() { s.calls.n.Add(1) }

// End implements acquire.Calls.
func (s *Session) End() {
	s.calls.done()
	if s.Closed() && s.abandoned.Err() != nil {
		s.loseAll() // Close has not waited for this call
	}
}

// A session ends in two steps. It drains: nothing new is granted, and holds go on. Then it closes:
// what is held is lost and released, and all goroutines end. Shutdown waits between the two, until
// nothing is held; Close does not.

// drain begins the first step, once, and the goroutine that ends the session.
func (s *Session) drain() {
	s.drainOnce.Do(func() {
		s.Draining.Cancel()
		s.Keeper.Close()
		go s.shutdown() // ends by itself after close, and closes finished
	})
}

// close begins the second step, once.
func (s *Session) close() {
	s.drain()
	s.closeOnce.Do(func() {
		close(s.closing)
		s.Closing.Cancel()
	})
}

// Shutdown makes waiting calls return ErrClosed, and releases what is kept. It blocks until all
// holds have ended, and does Close then. If ctx ends first it closes at once, and returns the error
// of ctx.
func (s *Session) Shutdown(ctx context.Context) error {
	s.drain()
	select {
	case <-s.finished:
		return s.closeErr
	case <-ctx.Done():
	}
	if s.Closed() { // everything has ended, or another call has closed
		return s.Close(ctx)
	}
	held := s.Watchdog.Held()
	err := s.Close(ctx)
	return lockerr.Ended("shutdown", "", ctx, lockerr.Join(s.stillHeld(held), lockerr.Bare(err)))
}

// stillHeld returns the error that Shutdown has lost these, nil if there are none.
func (s *Session) stillHeld(ls []*lease.Lease) error {
	switch len(ls) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("lock %s was still held", lockerr.Quote(s.NameOf(ls[0].Keys.Name)))
	}
	return fmt.Errorf("%d locks, %s among them, were still held", len(ls), lockerr.Quote(s.NameOf(ls[0].Keys.Name)))
}

// awaitHolds blocks until nothing is held and no call is under way, such as one that hands a hold
// off; or until Close. A call that has begun before the session drained may still be granted a hold,
// so calls come first.
func (s *Session) awaitHolds() {
	for none := false; !none && !s.Closed(); none = s.calls.n.Load() == 0 {
		s.calls.wait(s.closing)
		s.Watchdog.AwaitNone(s.closing)
	}
}

// Close makes waiting calls return ErrClosed, loses and releases every hold, and ends all
// goroutines and subscriptions. It blocks until that is done. When ctx ends it waits for Redis no
// more: it ends everything and returns an error, and holds not released until then expire. Only
// calls inside rueidis that nothing can end outlive it, until rueidis' own timeouts. Close may be
// called more than once, and leaves the client open.
func (s *Session) Close(ctx context.Context) error {
	s.close()
	least := time.After(closeLeast)
	select {
	case <-s.finished:
		return s.closeErr
	case <-ctx.Done():
	}
	select {
	case <-s.finished:
		return s.closeErr
	case <-least:
	}
	s.abandon()
	s.Watchdog.CancelReleases()
	s.halt()
	select {
	case <-s.finished:
		return lockerr.Ended("close", "", ctx, lockerr.Bare(s.closeErr))
	case <-time.After(2 * leaveMost):
		return lockerr.Ended("close", "", ctx, nil)
	}
}

// shutdown waits until nothing is held, or Close is called. Then it releases everything and ends
// the goroutines. Once abandoned, it waits for none that rueidis may hold up.
func (s *Session) shutdown() {
	s.awaitHolds()
	s.close()
	s.loseAll()
	s.calls.wait(s.abandoned.Done())
	s.loseAll() // granted while calls drained
	ctx, stop := timing.Within(s.abandoned, min(s.Config.Lease, releaseMost))
	s.left.wait(ctx.Done())
	stop()
	s.calls.wait(s.abandoned.Done()) // unlocks that were faster
	s.halt()
	enough := make(chan struct{})
	leave := context.AfterFunc(s.abandoned, func() { time.AfterFunc(leaveMost, func() { close(enough) }) })
	s.own.wait(enough)
	leave()
	s.Proto.Leave()
	ctx, stop = timing.Within(s.abandoned, strayMost)
	s.strays.wait(ctx.Done())
	stop()
	s.closeErr = s.unreleased()
	s.abandon() // frees the context
	close(s.finished)
}

// loseAll loses every hold, and has it released.
func (s *Session) loseAll() {
	for _, l := range s.Watchdog.All() {
		s.Lost(l, lockerr.ErrLostAtClose)
	}
}

// unreleased returns the error of a Close that has left some leases to expire.
func (s *Session) unreleased() error {
	s.left.mu.Lock()
	defer s.left.mu.Unlock()
	n, name, last := len(s.left.leases), "", error(nil)
	for l, err := range s.left.leases {
		if name = lockerr.Quote(s.NameOf(l.Keys.Name)); err != nil && !transport.IsContextError(err) {
			last = err
		}
	}
	what := "lock " + name + " is not released, and expires with its lease"
	switch {
	case n == 0:
		return nil
	case n > 1:
		what = fmt.Sprintf("%d locks, %s among them, are not released, and expire with their leases", n, name)
	}
	return lockerr.New("close", "", errors.New(what), last)
}
