package relock

import (
	"context"
	"errors"
	"time"
)

// Close ends the session: waiting calls return ErrClosed, every hold is lost and
// released in Redis, goroutines and subscriptions end. It blocks until that is done
// or ctx ends; in the latter case it goes on in the background, and its error says
// so. What could not be released ends with its lease. Close may be called more than
// once; the client stays open.
func (s *Session) Close(ctx context.Context) error {
	s.once.Do(func() {
		close(s.closing)
		s.callCtx.cancel()
		go s.shutdown() // ended by itself; finished tells
	})
	select {
	case <-s.finished:
		return s.closeErr
	default:
	}
	select {
	case <-s.finished:
		return s.closeErr
	case <-ctx.Done():
		return ctxFailed("Close", "", ctx, errors.New("the session goes on closing in the background"))
	}
}

// shutdown releases everything and ends the goroutines.
func (s *Session) shutdown() {
	var errs []error
	errs = append(errs, s.releaseHolds())
	for again := true; again; again = s.calls.Load() > 0 {
		for s.calls.Load() > 0 {
			<-s.drained
		}
		errs = append(errs, s.releaseHolds()) // what was granted while they drained
	}
	close(s.stopping)
	s.ioCtx.cancel()
	s.wg.Wait()
	s.closeErr = errors.Join(errs...)
	close(s.finished)
}

// releaseHolds loses and releases every hold.
func (s *Session) releaseHolds() error {
	var leases []*lease
	for _, l := range s.watch.all() {
		n := s.forget(l)
		if n == 0 {
			continue
		}
		s.watch.remove(l)
		s.tellLost(l, ErrClosed, n)
		leases = append(leases, l)
	}
	for _, l := range leases {
		if l.unclear {
			s.clean.add(l, true, nil)
		}
	}
	ctx, cancel := bounded(min(s.cfg.lease, 5*time.Second))
	defer cancel()
	var last error
	for backoff := backoff0; len(leases) > 0; backoff = min(2*backoff, backoffN) {
		var again bool
		if leases, again, last = s.releaseOnce(ctx, leases, last); again {
			pause(ctx, jitter(backoff))
		} else if len(leases) > 0 {
			return failed("Close", leases[0].keys.name, errNotEvery, last)
		}
	}
	return nil
}

var errNotEvery = errors.New("not every hold could be released; they end with their leases")

// releaseOnce returns the leases it could not release, whether to try again, and the
// last error of Redis.
func (s *Session) releaseOnce(ctx context.Context, leases []*lease, last error) (left []*lease, again bool, _ error) {
	_, errs := s.proto.releaseAll(ctx, leases)
	for i, err := range errs {
		if err == nil {
			continue
		}
		left = append(left, leases[i])
		again = again || retryRelease(err) && ctx.Err() == nil
		if !isEnd(err) || last == nil {
			last = err
		}
	}
	return left, again, last
}

// pause sleeps for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
