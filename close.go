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
	for s.calls.Load() > 0 {
		<-s.drained
	}
	errs = append(errs, s.releaseHolds()) // what was granted while they drained
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
		if !s.forget(l) {
			continue
		}
		s.watch.remove(l)
		if o := s.cfg.observer; o != nil {
			o.Lost(LostEvent{Name: l.keys.name, Cause: ErrClosed})
		}
		leases = append(leases, l)
	}
	if len(leases) == 0 {
		return nil
	}
	ctx, cancel := bounded(min(s.cfg.lease, 5*time.Second))
	defer cancel()
	_, errs := s.proto.releaseAll(ctx, leases)
	for i, l := range leases {
		if l.unclear {
			s.clean.add(l, true, nil)
		}
		if errs[i] != nil {
			return failed("Close", l.keys.name, errors.New("not every hold could be released; they end with their leases"), errs[i])
		}
	}
	return nil
}
