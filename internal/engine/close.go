package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
)

const (
	closeLeast   = 100 * time.Millisecond // that Redis gets even if ctx has ended
	leaveMost    = 100 * time.Millisecond // for goroutines to end that rueidis does not hold up
	releaseMost  = 5 * time.Second        // for the answer to one pipeline of releases
	releaseBatch = 1000                   // releases in one pipeline
)

// Close makes waiting calls return ErrClosed, loses and releases every hold, and ends all
// goroutines and subscriptions. It blocks until that is done. When ctx ends it waits for Redis no
// more: it ends everything and returns an error, and holds not released until then expire. Only
// calls inside rueidis that nothing can end outlive it, until rueidis' own timeouts. Close may be
// called more than once, and leaves the client open.
func (e *Engine) Close(ctx context.Context) error {
	e.closeOnce.Do(func() {
		close(e.closing)
		e.callCtx.Cancel()
		go e.shutdown() // ends by itself, and closes finished
	})
	least := time.NewTimer(closeLeast)
	defer least.Stop()
	select {
	case <-e.finished:
		return e.closeErr
	default:
	}
	select {
	case <-e.finished:
		return e.closeErr
	case <-ctx.Done():
	}
	select {
	case <-e.finished:
		return e.closeErr
	case <-least.C:
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

// shutdown releases everything and ends the goroutines. Once abandoned, it waits for none that
// rueidis may hold up.
func (e *Engine) shutdown() {
	left, last := e.releaseHolds()
	for again := true; again; again = e.calls.Load() > 0 && e.abandoned.Err() == nil {
		for e.calls.Load() > 0 && e.abandoned.Err() == nil {
			select {
			case <-e.drained:
			case <-e.abandoned.Done():
			}
		}
		more, err := e.releaseHolds() // granted while calls drained
		left = append(left, more...)
		if err != nil {
			last = err
		}
	}
	e.halt()
	enough := make(chan struct{})
	stop := context.AfterFunc(e.abandoned, func() { time.AfterFunc(leaveMost, func() { close(enough) }) })
	e.own.wait(enough)
	stop()
	e.strays.wait(e.abandoned.Done())
	e.closeErr = e.unreleased(left, last)
	e.abandon() // frees the context
	close(e.finished)
}

// unreleased returns the error of a Close that has left some leases to expire.
func (e *Engine) unreleased(left []*lease.Lease, last error) error {
	if len(left) == 0 {
		return nil
	}
	name := lockerr.Quote(e.nameOf(left[0].Keys.Name))
	what := "lock " + name + " is not released, and expires with its lease"
	if n := len(left); n > 1 {
		what = fmt.Sprintf("%d locks, %s among them, are not released, and expire with their leases", n, name)
	}
	return lockerr.New("close", "", errors.New(what), last)
}

// loseAll loses every hold, and returns the leases that are to be released.
func (e *Engine) loseAll() (leases []*lease.Lease) {
	for _, l := range e.watchdog.All() {
		if _, part := e.parts.LoadAndDelete(forcedID(l)); part {
			e.watchdog.Remove(l)
			l.OnLost(lockerr.ErrClosed)
			leases = append(leases, l)
			continue
		}
		holds := e.arbiters[l.Kind].Lose(l.Keys.Name, l, lockerr.ErrClosed)
		if len(holds) == 0 {
			continue
		}
		e.watchdog.Remove(l)
		for _, h := range holds {
			ReportLoss(e.Config.Observer, h, e.nameOf(l.Keys.Name), kinds[l.Kind], e.Clock.Now())
		}
		leases = append(leases, l)
	}
	return leases
}

// releaseHolds loses every hold and releases it in Redis. It returns what it could not release,
// and the last error of Redis.
func (e *Engine) releaseHolds() (left []*lease.Lease, last error) {
	leases := e.loseAll()
	for _, l := range leases {
		if l.Indeterminate {
			e.cleaner.Add(l, true, nil)
		}
	}
	var mu sync.Mutex // protects left and last
	transport.EachNode(e.proto.Conn, leases, (*lease.Lease).LockName, func(some []*lease.Lease) {
		for len(some) > 0 {
			n := min(len(some), releaseBatch)
			rest, silent, err := e.releaseAll(some[:n])
			if some = some[n:]; silent {
				rest, some = append(rest, some...), nil
			}
			mu.Lock()
			left = append(left, rest...)
			if err != nil {
				last = err
			}
			mu.Unlock()
		}
	})
	return left, last
}

// releaseAll releases leases of one node in one pipeline, and again what failed, for a bounded
// time. It returns those that are left, whether the node did not answer, and its last error.
func (e *Engine) releaseAll(leases []*lease.Lease) (left []*lease.Lease, silent bool, last error) {
	ctx, cancel := timing.Within(e.abandoned, min(e.Config.Lease, releaseMost))
	defer cancel()
	left = leases
	for backoff := timing.MinBackoff; len(left) > 0; backoff = min(2*backoff, timing.MaxBackoff) {
		var again bool
		if left, again, last = e.releaseOnce(ctx, left, last); !again {
			break
		}
		timing.Pause(ctx, timing.Jitter(backoff))
	}
	return left, ctx.Err() != nil, last
}

// releaseOnce sends the releases once. It returns the leases that are left, whether to try them
// again, and the last error of Redis.
func (e *Engine) releaseOnce(ctx context.Context, leases []*lease.Lease, last error) (left []*lease.Lease, again bool, _ error) {
	_, errs := e.proto.ReleaseAll(ctx, lease.Refs(leases))
	for i, err := range errs {
		if err == nil {
			continue
		}
		left = append(left, leases[i])
		again = again || lease.RetryRelease(err) && ctx.Err() == nil
		if !transport.IsContextError(err) {
			last = err
		}
	}
	return left, again, last
}
