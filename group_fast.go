package relock

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
)

// tryFast takes all members of a group but first, which is held, with one script. It
// returns the place of a member that is taken, or -1.
func (g *Group) tryFast(ctx context.Context, o *arbiter.Owner, first int, wait bool) (taken int, err error) {
	s := g.fast[0].s
	if !s.begin() {
		return -1, failed("lock group", "", ErrClosed)
	}
	defer s.end()
	b := fastBatch{s: s, o: o}
	for i, m := range g.fast {
		if i == first {
			continue
		}
		if !b.enter(i, m) {
			b.back()
			return i, nil
		}
	}
	taken, err = b.ask(ctx, g.fast[0], wait)
	if taken >= 0 || err != nil {
		b.back()
	}
	b.free()
	return taken, err
}

// fastBatch is one try at several mutexes of a session.
type fastBatch struct {
	s       *Session
	o       *arbiter.Owner
	places  []int // in the group, of those that ask
	asking  []*arbiter.Waiter[*lease]
	leases  []*lease
	maxes   []time.Duration // their WithMaxHold
	entered []*Mutex        // those the owner has had before
}

// enter takes the turn of m among the goroutines of this process, if nobody has it.
func (b *fastBatch) enter(i int, m *Mutex) bool {
	w := b.s.table.Waiter(&m.h, b.o, m.cfg.lease == 0)
	switch b.s.table.Enter(w, false) {
	case arbiter.Entered:
		b.entered = append(b.entered, m)
		b.s.table.Free(w)
	case arbiter.Ask:
		b.places = append(b.places, i)
		b.asking = append(b.asking, w)
		b.leases = append(b.leases, m.newLease(plain))
		b.maxes = append(b.maxes, m.cfg.max)
	default:
		b.s.table.Free(w)
		return false
	}
	return true
}

// ask sends the script, and makes the holds if it succeeds.
func (b *fastBatch) ask(ctx context.Context, m *Mutex, wait bool) (taken int, err error) {
	if len(b.leases) == 0 {
		return -1, nil
	}
	s := b.s
	a := m.attempt(ctx, wait)
	for backoff := backoff0; ; backoff = min(2*backoff, backoffN) {
		sent := s.clock.now()
		tokens, at, _, err := s.proto.acquireAll(a.io, b.leases)
		now := s.clock.now()
		if err == nil && at >= 0 {
			return b.places[at], nil
		}
		if err == nil && b.granted(tokens, sent, now) {
			return -1, nil
		}
		if err == nil {
			err = errLate
		}
		_, answered := redisError(err)
		for _, l := range b.leases {
			l.unclear = l.unclear || !answered
		}
		if err := a.failed(err); err != nil {
			return -1, err
		}
		if err := a.sleep(jitter(backoff), nil); err != nil {
			return -1, err
		}
	}
}

// granted makes the holds of a grant, unless it is too old to be certain.
func (b *fastBatch) granted(ts []int64, sent, now int64) bool {
	for _, l := range b.leases {
		l.sent, l.since = sent, now
		l.deadline.Store(l.certainUntil(sent))
		if !certain(l, now+early) {
			return false
		}
	}
	for i, l := range b.leases {
		w := b.asking[i]
		l.token, l.top = ts[i], ts[i]+tokens(ts[i])-1
		b.s.table.Grant(w, l, l.token)
		b.s.watch.add(l, b.maxes[i])
	}
	return true
}

// back undoes the batch.
func (b *fastBatch) back() {
	for i, w := range b.asking {
		b.s.table.Quit(w)
		if l := b.leases[i]; l.unclear {
			b.s.clean.add(l, true, nil)
		}
	}
	for _, m := range b.entered {
		m.abandon(b.o)
	}
	b.free()
	b.entered = nil
}

func (b *fastBatch) free() {
	for _, w := range b.asking {
		b.s.table.Free(w)
	}
	b.asking, b.leases = nil, nil
}

// unlockFast ends one lock of every member, with one script for those that are over.
func (g *Group) unlockFast(ctx context.Context, o *arbiter.Owner) (errs []error) {
	s := g.fast[0].s
	s.calls.Add(1)
	defer s.end()
	var over []*Mutex
	var holds []*hold
	for _, m := range g.fast {
		h, outcome := s.table.Exit(&m.h, o)
		if outcome == arbiter.Release {
			over = append(over, m)
			holds = append(holds, h)
		} else {
			errs = append(errs, m.exit(ctx, "unlock", o, h, outcome))
		}
	}
	if len(over) == 0 {
		return errs
	}
	leases := make([]*lease, len(holds))
	for i, h := range holds {
		leases[i] = h.Lease
	}
	done := s.unlockedAll(ctx, leases)
	for i, m := range over {
		m.ended(holds[i], done[i])
		errs = append(errs, done[i])
	}
	return errs
}
