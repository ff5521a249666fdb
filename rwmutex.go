package relock

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
)

// An RWMutex is a re-entrant reader/writer mutual exclusion lock: held by any number
// of readers, or by one writer. It shares its key, and so excludes, with every RWMutex
// and Redisson RReadWriteLock of the same name. A lock of another kind of that name is
// respected as held.
//
// Values come from [Session.RWMutex]; methods of the zero RWMutex return an error. An
// RWMutex must not be copied after first use, and is safe for concurrent use. As a
// [Locker] it is its write side; [RWMutex.RLocker] is its read side. Each side has its
// own Done and Err.
//
// A waiting writer stops new readers, in all processes; when a writer is done, the
// readers that wait go before the next one. So neither side starves the other. An owner
// that reads may read again whatever waits. A writer may also read, and keeps reading
// when it unlocks the write side first. The other way round is refused with ErrUpgrade:
// two readers that waited to write would wait for each other.
//
// All readers of a session share one hold in Redis, which the first asks for and the
// last releases; for one tenure after Redis last said that no writer waits, more of
// them join without asking. A reader with a lease of its own ([WithLease],
// [WithMaxHold]) has a hold of its own.
type RWMutex struct {
	lockBase
	w, r arbiter.Handle[*lease]
}

var _ Locker = (*RWMutex)(nil)

// RWMutex returns a read-write lock of the given name. It sends nothing and cannot
// fail: a bad name or option is reported by the first call that would use it.
func (s *Session) RWMutex(name string, opts ...LockOption) *RWMutex {
	b := s.lockBase(write, name, opts)
	return &RWMutex{lockBase: b, w: s.rws.Handle(b.keys.name), r: s.rws.Handle(b.keys.name)}
}

// Name returns the name of the lock.
func (rw *RWMutex) Name() string { return rw.keys.name }

// Lock locks rw for writing; see [Locker]. By an owner that holds only the read side it
// fails at once with ErrUpgrade.
func (rw *RWMutex) Lock(ctx context.Context) error {
	_, err := rw.lockWith(ctx, "lock", true, rw.enterWrite)
	return err
}

// TryLock tries to lock rw for writing without waiting; see [Locker].
func (rw *RWMutex) TryLock(ctx context.Context) (bool, error) {
	return rw.lockWith(ctx, "try to lock", false, rw.enterWrite)
}

// RLock locks rw for reading; see [Locker].
func (rw *RWMutex) RLock(ctx context.Context) error {
	if rw.joins(ctx) {
		return nil
	}
	_, err := rw.lockWith(ctx, "read-lock", true, rw.enterRead)
	return err
}

// TryRLock tries to lock rw for reading without waiting; see [Locker]. It is false also
// while a writer waits.
func (rw *RWMutex) TryRLock(ctx context.Context) (bool, error) {
	if rw.joins(ctx) {
		return true, nil
	}
	return rw.lockWith(ctx, "try to read-lock", false, rw.enterRead)
}

func (rw *RWMutex) enterWrite(ctx context.Context, o *arbiter.Owner, op string, wait bool, e *AcquireEvent) (bool, error) {
	s := rw.s
	w := s.rws.Waiter(&rw.w, o, rw.cfg.lease == 0)
	defer s.rws.Free(w)
	switch s.rws.Enter(w, arbiter.Write, wait) {
	case arbiter.Entered:
		e.again = true
		return true, nil
	case arbiter.Upgrade:
		return false, failed(op, rw.keys.name, ErrUpgrade)
	case arbiter.Busy:
		return false, nil
	case arbiter.Queued:
		h, _, err := rw.queued(ctx, op, w, e)
		if h != nil {
			e.Handoff = h.Passed
			s.watch.passed(h, rw.cfg.max)
		}
		if h != nil || err != nil {
			return h != nil, err
		}
	}
	l, contended, err := rw.ask(ctx, write, wait)
	e.Contended = e.Contended || contended
	if l == nil {
		s.rws.Quit(w)
		return false, err
	}
	s.rws.GrantWrite(w, l, l.token)
	s.took(l, rw.cfg.max)
	return true, nil
}

// queued waits for the turn of a call among the goroutines of this process. It returns
// the hold if one has let it in, or whether it is to ask Redis now.
func (rw *RWMutex) queued(ctx context.Context, op string, w *arbiter.Waiter[*lease], e *AcquireEvent) (h *hold, ask bool, err error) {
	s := rw.s
	e.Contended = true
	select {
	case <-w.C:
		h, ask = s.rws.Answer(w)
		return h, ask, nil
	case <-ctx.Done():
		err = ctxFailed(op, rw.keys.name, ctx, nil)
	case <-s.closing:
		err = failed(op, rw.keys.name, ErrClosed)
	}
	if h := s.rws.Quit(w); h != nil {
		rw.giveBack(w.Via, h)
	}
	return nil, false, err
}

// giveBack ends one lock of a hold that a call was granted but does not want.
func (rw *RWMutex) giveBack(via *arbiter.Handle[*lease], h *hold) {
	switch h, outcome, lost := rw.s.rws.Return(via, h); outcome {
	case arbiter.Release:
		rw.s.releaseLater(h.Lease)
	case arbiter.Expired:
		rw.s.lost(h.Lease, errExpired, lost)
	}
}

// shares reports whether readers through rw share the read lease of their process.
func (rw *RWMutex) shares() bool { return rw.cfg.lease == 0 && rw.cfg.max == 0 }

// joins locks the read side if that takes no asking, nor an observer to be told.
func (rw *RWMutex) joins(ctx context.Context) bool {
	return rw.r.Valid() && rw.cfg.err == nil && rw.s.cfg.observer == nil && ctx.Err() == nil &&
		rw.s.rws.Join(&rw.r, ownerOf(ctx), rw.shares())
}

func (rw *RWMutex) enterRead(ctx context.Context, o *arbiter.Owner, op string, wait bool, e *AcquireEvent) (bool, error) {
	s := rw.s
	w := s.rws.Waiter(&rw.r, o, rw.shares())
	defer s.rws.Free(w)
	switch s.rws.Enter(w, arbiter.Read, wait) {
	case arbiter.Entered:
		e.again = true
		return true, nil
	case arbiter.Joined:
		e.Handoff = true
		return true, nil
	case arbiter.Busy:
		return false, nil
	case arbiter.Queued:
		h, ask, err := rw.queued(ctx, op, w, e)
		e.Handoff = h != nil
		if !ask {
			return h != nil, err
		}
	}
	r := reader{attempt: rw.attempt(ctx, wait), w: w, l: rw.newLease(read)}
	r.poll, r.shares = intentValid/3, true
	err := r.run(r.ask)
	e.Contended = e.Contended || r.tries > 1 || err != nil
	if r.h != nil {
		e.Handoff = !r.used
		return true, nil
	}
	if r.l.unclear || r.halfway || wait && r.tries > 0 {
		s.clean.add(r.l, r.l.unclear, nil) // the intent, too
	}
	s.rws.Quit(w)
	return false, err
}

// reader is one call of RLock while it asks Redis.
type reader struct {
	attempt
	w    *arbiter.Waiter[*lease]
	l    *lease // to be acquired
	h    *hold  // what the call has got
	used bool   // it is on l
}

// ask is one try: for a read lease, or whether more readers may join the one this
// process has.
func (r *reader) ask() (done bool, ttl time.Duration, err error) {
	for {
		h, st := r.s.rws.Standing(r.w)
		var reply int64
		switch {
		case h != nil:
			r.h = h
			if r.tries > 1 {
				r.s.clean.add(r.l, r.l.unclear, nil) // the intent
			}
			return true, 0, nil
		case st.Confirm:
			reply, ttl, err = r.confirm(st.Read)
		default:
			reply, ttl, err = r.acquire(st)
		}
		if err != nil || reply == 0 {
			r.s.rws.Refused(r.w, err != nil)
			return false, ttl, err
		}
		if r.h != nil {
			return true, 0, nil
		}
	}
}

// confirm asks whether more readers may join the read lease l.
func (r *reader) confirm(l *lease) (reply int64, ttl time.Duration, err error) {
	sent := r.s.clock.now()
	if !certain(l, sent) {
		r.s.lose(l, errExpired)
		return readGone, 0, nil
	}
	reply, ttl, err = r.s.proto.confirmRead(r.io, l, r.l, r.wait)
	switch {
	case err != nil || reply == 0:
	case reply == readGone:
		r.s.lose(l, errGone)
	default:
		r.h, _ = r.s.rws.GrantRead(r.w, l, false, r.ride(reply, sent))
	}
	return reply, ttl, err
}

// acquire asks for a read lease.
func (r *reader) acquire(st arbiter.Standing[*lease]) (reply int64, ttl time.Duration, err error) {
	s, writer := r.s, ""
	if st.Writes {
		writer = st.Write.id
	}
	ttl, err = r.try(r.l, func() (int64, time.Duration, error) {
		return s.proto.acquireRead(r.io, r.l, r.ms, writer, r.wait, &s.cfg)
	})
	reply, r.l.token = r.l.token, 0
	if err != nil || reply == 0 {
		return 0, ttl, err
	}
	if r.h, r.used = s.rws.GrantRead(r.w, r.l, true, r.ride(reply, r.l.sent)); r.used {
		s.took(r.l, r.cfg.max)
		return reply, 0, nil
	}
	s.releaseLater(r.l) // another reader of this owner, or of this process, was faster
	r.l = r.newLease(read)
	return reply, 0, nil
}

// ride returns until when more readers may join after a reply.
func (r *reader) ride(reply, sent int64) int64 {
	if reply != readJoin {
		return 0
	}
	return sent + int64(r.s.cfg.tenure)
}

// Unlock ends one Lock of rw; see [Locker]. If its owner reads as well, that goes on,
// and waiting readers enter.
func (rw *RWMutex) Unlock(ctx context.Context) error {
	return rw.unlock(ctx, "unlock", &rw.w, arbiter.Write)
}

// RUnlock ends one RLock of rw; see [Locker]. If other goroutines of this session read
// on, nothing is sent.
func (rw *RWMutex) RUnlock(ctx context.Context) error {
	return rw.unlock(ctx, "read-unlock", &rw.r, arbiter.Read)
}

func (rw *RWMutex) unlock(ctx context.Context, op string, via *arbiter.Handle[*lease], side arbiter.Side) error {
	if err := rw.usable(op); err != nil {
		return err
	}
	rw.s.calls.Add(1)
	defer rw.s.end()
	o := ownerOf(ctx)
	h, outcome, lost := rw.s.rws.Exit(via, o, side)
	if outcome == arbiter.Expired {
		rw.s.lost(h.Lease, errExpired, lost)
		outcome = arbiter.WasLost
	}
	return rw.exit(ctx, op, o, h, outcome)
}

// Done returns a channel that is closed when the latest write hold taken through rw
// ends; see [Locker].
func (rw *RWMutex) Done() <-chan struct{} { return rw.holdDone(rw.w.Latest()) }

// Err tells whether the latest write hold taken through rw is held; see [Locker].
func (rw *RWMutex) Err() error { return rw.holdErr(rw.w.Latest()) }

// FencingToken returns the fencing token of the latest write hold taken through rw; see
// [Mutex.FencingToken]. Readers have none.
func (rw *RWMutex) FencingToken() int64 { return holdToken(rw.w.Latest()) }

// Deadline returns the time until which the write hold is certain; see
// [Mutex.Deadline].
func (rw *RWMutex) Deadline() (time.Time, bool) { return rw.holdDeadline(rw.w.Latest()) }

// RLocker returns the read side of rw as a Locker: its Lock and Unlock are RLock and
// RUnlock, and its Done and Err tell of the latest read hold taken through rw.
func (rw *RWMutex) RLocker() Locker { return (*rlocker)(rw) }

type rlocker RWMutex

func (r *rlocker) Lock(ctx context.Context) error            { return (*RWMutex)(r).RLock(ctx) }
func (r *rlocker) TryLock(ctx context.Context) (bool, error) { return (*RWMutex)(r).TryRLock(ctx) }
func (r *rlocker) Unlock(ctx context.Context) error          { return (*RWMutex)(r).RUnlock(ctx) }
func (r *rlocker) Done() <-chan struct{}                     { return r.holdDone(r.r.Latest()) }
func (r *rlocker) Err() error                                { return r.holdErr(r.r.Latest()) }

// doneOf returns the Done channel of the read hold that a call under ctx has taken,
// whoever has taken one through r since.
func (r *rlocker) doneOf(ctx context.Context) <-chan struct{} {
	if h := r.s.rws.Read(&r.r, ownerOf(ctx)); h != nil {
		return h.Done()
	}
	return r.Done()
}
