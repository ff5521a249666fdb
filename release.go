package relock

import (
	"context"
	"errors"
	"time"
)

// unlocked ends a hold in Redis whose last unlock was called. It blocks until that
// is done, or the lease has ended by itself.
func (s *Session) unlocked(ctx context.Context, l *lease) error {
	io := newIOCtx(ctx)
	s.watch.stop(l, io)
	heard := s.hub.heard(l.keys.channel)
	told, err := s.releaseRetrying(io, l)
	s.watch.remove(l)
	if told >= 0 && err == nil && (l.kind == plain || l.kind == write) {
		s.turnOver(l, told, heard)
	}
	s.released(l)
	if l.unclear || err != nil && !errors.Is(err, errGone) {
		s.clean.add(l, l.unclear, nil) // its key may outlive our deadline
	}
	io.free()
	return err
}

// unlockedAll is unlocked for several plain holds of one slot, with one script. What
// that leaves undone goes on one by one.
func (s *Session) unlockedAll(ctx context.Context, ls []*lease) []error {
	errs := make([]error, len(ls))
	io := newIOCtx(ctx)
	least := patience
	heard := make([]heard, len(ls))
	for i, l := range ls {
		s.watch.stop(l, io)
		heard[i] = s.hub.heard(l.keys.channel)
		least = min(least, s.left(l))
	}
	io.bound(s.proto, least)
	told, err := s.proto.releaseSome(io, ls)
	for i, l := range ls {
		if err != nil || told[i] < 0 {
			continue
		}
		s.turnOver(l, told[i], heard[i])
		s.watch.remove(l)
		s.released(l)
		if l.unclear {
			s.clean.add(l, true, nil)
		}
	}
	for i, l := range ls {
		if err != nil || told[i] < 0 {
			errs[i] = s.unlocked(ctx, l) // finds out why
			if err != nil && errs[i] != nil && errors.Is(errs[i], errGone) {
				errs[i] = nil // the script got through, its reply did not
			}
		}
	}
	io.free()
	return errs
}

// unlockedWithin is unlocked, but leaves the release to the background if Redis has not
// confirmed it after d. It returns how many subscribers were told, -1 if there was no
// such hold.
func (s *Session) unlockedWithin(ctx context.Context, l *lease, d time.Duration) (told int64, err error) {
	io := newIOCtx(ctx)
	s.watch.stop(l, io)
	timer := time.AfterFunc(d, func() { s.watch.cancel(l, io) })
	io.bound(s.proto, min(d, s.left(l)))
	heard := s.hub.heard(l.keys.channel)
	told, err = s.proto.release(io, l)
	timer.Stop()
	if err != nil {
		s.releaseLater(l) // which takes io's place
		io.free()
		return 0, failed("unlock", l.keys.name, err)
	}
	if told >= 0 {
		s.turnOver(l, told, heard)
	}
	s.watch.remove(l) // nobody cancels io any more
	io.free()
	s.released(l)
	if l.unclear {
		s.clean.add(l, true, nil)
	}
	if told < 0 {
		return told, failed("unlock", l.keys.name, ErrLost, errGone)
	}
	return told, nil
}

// left returns how long a lease is still certain.
func (s *Session) left(l *lease) time.Duration {
	return time.Duration(l.deadline.Load() - s.clock.now())
}

// turnOver records that a release told so many subscribers. Before it, h was heard.
func (s *Session) turnOver(l *lease, told int64, h heard) {
	if h.live {
		told-- // this session itself
		h.n++
	}
	if told <= 0 && s.turns.some.Load() == 0 {
		return // nobody else waits, as usual
	}
	s.turns.ended(l.keys.channel, turn{since: l.since, end: s.clock.now(), others: int(told), heard: h.n})
}

// releaseRetrying returns how many subscribers were told of the release.
func (s *Session) releaseRetrying(io *ioCtx, l *lease) (told int64, err error) {
	backoff := backoff0
	for again := false; ; again = true {
		io.bound(s.proto, s.left(l))
		told, err = s.proto.release(io, l)
		switch {
		case err == nil && (told >= 0 || again):
			return told, nil // found nothing because the one before got through
		case err == nil:
			return told, failed("unlock", l.keys.name, ErrLost, errGone)
		case io.Err() != nil:
			return -1, failed("unlock", l.keys.name, ErrLost, errEnded)
		case !retryRelease(err):
			return -1, failed("unlock", l.keys.name, ErrLost, err, errNotReleased)
		}
		timer := time.NewTimer(jitter(backoff))
		select {
		case <-timer.C:
		case <-io.done:
			timer.Stop()
			return -1, failed("unlock", l.keys.name, ErrLost, errEnded, err)
		}
		backoff = min(2*backoff, backoffN)
	}
}

var errNotReleased = errors.New("the key stays until its lease ends")

// retryRelease reports whether a release that failed with err is worth another try.
func retryRelease(err error) bool {
	if re, ok := redisError(err); ok {
		return re == "MISCONF" || transient(err)
	}
	return transient(err)
}

// releaseLater releases a hold in the background that a call was granted but does not
// want.
func (s *Session) releaseLater(l *lease) {
	s.watch.stop(l, &ioCtx{Context: context.Background(), done: make(chan struct{})})
	s.clean.add(l, l.unclear, func() {
		s.watch.remove(l)
		s.released(l)
	})
}

// released passes the turn on after a release.
func (s *Session) released(l *lease) {
	switch l.kind {
	case plain:
		s.table.Released(l.keys.name, l)
	case fair:
		s.fairs.Released(l.keys.name, l)
	case write:
		s.rws.Released(l.keys.name, l)
	}
}
