package relock

import (
	"context"

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
	asking  []fastAsk
	leases  []*lease // theirs
	entered []*Mutex // those the owner has had before
}

// fastAsk is a mutex that has to be asked for.
type fastAsk struct {
	*Mutex
	place int // in the group
	w     *arbiter.Waiter[*lease]
}

func newFastBatch(s *Session, o *arbiter.Owner, most int) *fastBatch {
	return &fastBatch{s: s, o: o, asking: make([]fastAsk, 0, most), leases: make([]*lease, 0, most)}
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
		b.asking = append(b.asking, fastAsk{m, i, w})
		b.leases = append(b.leases, m.newLease(plain))
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
			return b.asking[at].place, nil
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
		ask := b.asking[i]
		l.token, l.top = ts[i], ts[i]+tokens(ts[i])-1
		b.s.table.Grant(ask.w, l, l.token)
		b.s.took(l, ask.cfg.max)
	}
	return true
}

// back undoes the batch.
func (b *fastBatch) back() {
	for i, ask := range b.asking {
		b.s.table.Quit(ask.w)
		if l := b.leases[i]; l.unclear {
			b.s.clean.add(l, true, nil)
		}
	}
	for _, m := range b.entered {
		m.abandon(b.o)
	}
}

func (b *fastBatch) free() {
	for _, ask := range b.asking {
		b.s.table.Free(ask.w)
	}
}

// unlockFast ends one lock of every member, with one script for those that are over.
func (g *Group) unlockFast(ctx context.Context, o *arbiter.Owner) (errs []error) {
	s := g.fast[0].s
	s.calls.Add(1)
	defer s.end()
	over := make([]*Mutex, 0, len(g.fast))
	holds := make([]*hold, 0, len(g.fast))
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
