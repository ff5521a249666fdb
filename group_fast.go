package relock

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
)

// fastMost is how many members one script takes: the server serves nobody else while it
// runs, about 4 µs for each.
const fastMost = 1000

// fastPath returns the members if one script can take them all.
func (g *Group) fastPath() []*Mutex {
	var ms []*Mutex
	for i, l := range g.members {
		m, ok := l.(*Mutex)
		if !ok || len(g.members) > fastMost || m.usable("") != nil || m.s.cfg.replicas > 0 ||
			i > 0 && (m.s != ms[0].s || m.keys.name == ms[i-1].keys.name ||
				m.s.proto.slot(m.keys.name) != m.s.proto.slot(ms[0].keys.name)) {
			return nil
		}
		ms = append(ms, m)
	}
	return ms
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

// enter takes the turn of m, which has place i, among the goroutines of this process. If
// another has it, it waits, or returns i.
func (b *fastBatch) enter(ctx context.Context, i int, m *Mutex, wait bool) (taken int, err error) {
	s := b.s
	w := s.table.Waiter(&m.h, b.o, m.cfg.lease == 0)
	verdict := s.table.Enter(w, wait)
	if verdict == arbiter.Queued {
		select {
		case <-w.C:
			h := s.table.Role(w)
			if h == nil {
				verdict = arbiter.Ask
				break
			}
			s.watch.passed(h, m.cfg.max)
			verdict = arbiter.Entered
		case <-ctx.Done():
			err = ctxFailed("lock group", m.keys.name, ctx, nil)
		case <-s.closing:
			err = failed("lock group", m.keys.name, ErrClosed)
		}
		if err != nil {
			m.quit(w)
		}
	}
	switch verdict {
	case arbiter.Ask:
		b.places = append(b.places, i)
		b.asking = append(b.asking, w)
		b.leases = append(b.leases, m.newLease(plain))
		b.maxes = append(b.maxes, m.cfg.max)
		return -1, nil
	case arbiter.Entered:
		b.entered = append(b.entered, m)
		i = -1
	}
	s.table.Free(w)
	return i, err
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
		b.s.took(l, b.maxes[i])
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
}

func (b *fastBatch) free() {
	for _, w := range b.asking {
		b.s.table.Free(w)
	}
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
