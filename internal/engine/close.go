package engine

import (
	"context"
	"errors"
	"fmt"
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

// tasks are calls, or goroutines, that Close waits for. Only one goroutine may call wait.
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

// An engine ends in two steps. It drains: nothing new is granted, and holds go on. Then it closes:
// what is held is lost and released, and all goroutines end. Shutdown waits between the two, until
// nothing is held; Close does not.

// drain begins the first step, once, and the goroutine that ends the engine.
func (e *Engine) drain() {
	e.drainOnce.Do(func() {
		e.lockCtx.Cancel()
		timing.Signal(e.keeper.kept.Kick) // it releases what it keeps
		go e.shutdown()                   // ends by itself after close, and closes finished
	})
}

// close begins the second step, once.
func (e *Engine) close() {
	e.drain()
	e.closeOnce.Do(func() {
		close(e.closing)
		e.callCtx.Cancel()
	})
}

// Shutdown makes waiting calls return ErrClosed, and releases what is kept. It blocks until all
// holds have ended, and does Close then. If ctx ends first it closes at once, and returns the error
// of ctx.
func (e *Engine) Shutdown(ctx context.Context) error {
	e.drain()
	select {
	case <-e.finished:
		return e.closeErr
	case <-ctx.Done():
	}
	if e.Closed() { // everything has ended, or another call has closed
		return e.Close(ctx)
	}
	held := e.watchdog.Held()
	err := e.Close(ctx)
	return lockerr.Ended("shutdown", "", ctx, lockerr.Join(e.stillHeld(held), lockerr.Bare(err)))
}

// stillHeld returns the error that Shutdown has lost these, nil if there are none.
func (e *Engine) stillHeld(ls []*lease.Lease) error {
	switch len(ls) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("lock %s was still held", lockerr.Quote(e.nameOf(ls[0].Keys.Name)))
	}
	return fmt.Errorf("%d locks, %s among them, were still held", len(ls), lockerr.Quote(e.nameOf(ls[0].Keys.Name)))
}

// awaitHolds blocks until nothing is held and no call is under way, such as one that hands a hold
// off; or until Close. A call that has begun before the engine drained may still be granted a hold,
// so calls come first.
func (e *Engine) awaitHolds() {
	for none := false; !none && !e.Closed(); none = e.calls.n.Load() == 0 {
		e.calls.wait(e.closing)
		e.watchdog.AwaitNone(e.closing)
	}
}

// Close makes waiting calls return ErrClosed, loses and releases every hold, and ends all
// goroutines and subscriptions. It blocks until that is done. When ctx ends it waits for Redis no
// more: it ends everything and returns an error, and holds not released until then expire. Only
// calls inside rueidis that nothing can end outlive it, until rueidis' own timeouts. Close may be
// called more than once, and leaves the client open.
func (e *Engine) Close(ctx context.Context) error {
	e.close()
	least := time.After(closeLeast)
	select {
	case <-e.finished:
		return e.closeErr
	case <-ctx.Done():
	}
	select {
	case <-e.finished:
		return e.closeErr
	case <-least:
	}
	e.abandon()
	e.watchdog.CancelReleases()
	e.halt()
	select {
	case <-e.finished:
		return lockerr.Ended("close", "", ctx, lockerr.Bare(e.closeErr))
	case <-time.After(2 * leaveMost):
		return lockerr.Ended("close", "", ctx, nil)
	}
}

// shutdown waits until nothing is held, or Close is called. Then it releases everything and ends
// the goroutines. Once abandoned, it waits for none that rueidis may hold up.
func (e *Engine) shutdown() {
	e.awaitHolds()
	e.close()
	e.loseAll()
	e.calls.wait(e.abandoned.Done())
	e.loseAll() // granted while calls drained
	ctx, stop := timing.Within(e.abandoned, min(e.Config.Lease, releaseMost))
	e.releases.wait(ctx.Done())
	stop()
	e.calls.wait(e.abandoned.Done()) // unlocks that were faster
	e.halt()
	enough := make(chan struct{})
	leave := context.AfterFunc(e.abandoned, func() { time.AfterFunc(leaveMost, func() { close(enough) }) })
	e.own.wait(enough)
	leave()
	e.proto.Leave()
	ctx, stop = timing.Within(e.abandoned, strayMost)
	e.strays.wait(ctx.Done())
	stop()
	e.closeErr = e.unreleased()
	e.abandon() // frees the context
	close(e.finished)
}

// loseAll loses every hold, and has it released.
func (e *Engine) loseAll() {
	for _, l := range e.watchdog.All() {
		e.Lost(l, lockerr.ErrLostAtClose)
	}
}

// releaseClosed releases l, which Close has lost.
func (e *Engine) releaseClosed(l *lease.Lease) {
	e.releaseSoon(l, false, func() {})
	if l.Indeterminate {
		e.cleaner.Add(l, true, nil)
	}
}

// releaseSoon has the cleaner release l. Close waits for that. done is called after it.
func (e *Engine) releaseSoon(l *lease.Lease, indeterminate bool, done func()) {
	e.releases.n.Add(1)
	e.left.Store(l, nil)
	e.cleaner.Add(l, indeterminate, func(err error) {
		done()
		if e.left.Delete(l); err != nil && e.Closed() {
			e.left.Store(l, err)
		}
		e.releases.done()
	})
}

// unreleased returns the error of a Close that has left some leases to expire.
func (e *Engine) unreleased() error {
	n, name, last := 0, "", error(nil)
	e.left.Range(func(l, err any) bool {
		n, name = n+1, lockerr.Quote(e.nameOf(l.(*lease.Lease).Keys.Name))
		if err, ok := err.(error); ok && !transport.IsContextError(err) {
			last = err
		}
		return true
	})
	what := "lock " + name + " is not released, and expires with its lease"
	switch {
	case n == 0:
		return nil
	case n > 1:
		what = fmt.Sprintf("%d locks, %s among them, are not released, and expire with their leases", n, name)
	}
	return lockerr.New("close", "", errors.New(what), last)
}
