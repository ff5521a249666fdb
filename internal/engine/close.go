package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
)

// Close makes waiting calls return ErrClosed, loses and releases every hold, and ends all
// goroutines and subscriptions. It blocks until that is done. If ctx ends first it returns an
// error and continues in the background. Holds that cannot be released expire. Close may be
// called more than once, and leaves the client open.
func (e *Engine) Close(ctx context.Context) error {
	e.closeOnce.Do(func() {
		close(e.closing)
		e.callCtx.Cancel()
		go e.shutdown() // ends by itself, and closes finished
	})
	select {
	case <-e.finished:
		return e.closeErr
	default:
	}
	select {
	case <-e.finished:
		return e.closeErr
	case <-ctx.Done():
		return lockerr.Ended("Close", "", ctx, errors.New("the session goes on closing in the background"))
	}
}

// shutdown releases everything and ends the goroutines.
func (e *Engine) shutdown() {
	var errs []error
	errs = append(errs, e.releaseHolds())
	for again := true; again; again = e.calls.Load() > 0 {
		for e.calls.Load() > 0 {
			<-e.drained
		}
		errs = append(errs, e.releaseHolds()) // granted while calls drained
	}
	close(e.stopping)
	e.ioCtx.Cancel()
	e.wg.Wait()
	e.closeErr = errors.Join(errs...)
	close(e.finished)
}

// releaseHolds loses every hold and releases it in Redis.
func (e *Engine) releaseHolds() error {
	var leases []*lease.Lease
	for _, l := range e.watchdog.All() {
		n := e.arbiters[l.Kind].lose(l)
		if n == 0 {
			continue
		}
		e.watchdog.Remove(l)
		e.reportLost(l, lockerr.ErrClosed, n)
		leases = append(leases, l)
	}
	for _, l := range leases {
		if l.Indeterminate {
			e.cleaner.Add(l, true, nil)
		}
	}
	ctx, cancel := transport.Bounded(min(e.Config.Lease, 5*time.Second))
	defer cancel()
	var mu sync.Mutex // protects errs
	var errs []error
	transport.EachNode(e.proto.Conn, leases, (*lease.Lease).LockName, func(some []*lease.Lease) {
		if err := e.releaseAll(ctx, some); err != nil {
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		}
	})
	return errors.Join(errs...)
}

// releaseAll releases the leases of one node, until all are released or ctx ends.
func (e *Engine) releaseAll(ctx context.Context, leases []*lease.Lease) (last error) {
	for backoff := timing.MinBackoff; len(leases) > 0; backoff = min(2*backoff, timing.MaxBackoff) {
		var again bool
		if leases, again, last = e.releaseOnce(ctx, leases, last); again {
			timing.Pause(ctx, timing.Jitter(backoff))
		} else if len(leases) > 0 {
			return lockerr.New("Close", e.nameOf(leases[0].Keys.Name), errNotEvery, last)
		}
	}
	return nil
}

var errNotEvery = errors.New("not every hold could be released; they end with their leases")

// releaseOnce sends the releases once. It returns the leases that are left, whether to try them
// again, and the last error of Redis.
func (e *Engine) releaseOnce(ctx context.Context, leases []*lease.Lease, last error) (left []*lease.Lease, again bool, _ error) {
	_, errs := e.proto.ReleaseAll(ctx, lease.Refs(leases))
	for i, err := range errs {
		if err == nil {
			continue
		}
		left = append(left, leases[i])
		again = again || retryRelease(err) && ctx.Err() == nil
		if !transport.IsContextError(err) || last == nil {
			last = err
		}
	}
	return left, again, last
}
