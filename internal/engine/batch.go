package engine

import (
	"cmp"
	"context"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// batchMost bounds the members that one script takes. The server does nothing else while it
// runs, about 4 µs for each.
const batchMost = 1000

// Batch is one attempt to acquire several Mutexes of an engine with one script.
type Batch struct {
	e       *Engine
	first   *Mutex // named in errors
	owner   *arbiter.Owner
	asking  []batchEntry
	leases  []*lease.Lease // of asking
	entered []batchEntry   // held here without asking
}

// batchEntry is a Mutex of a batch.
type batchEntry struct {
	*Mutex
	index int       // among the group's members
	w     *waiter   // nil once it is held
	call  *Acquired // to be reported; nil if there is nobody to tell
}

// NewBatch returns an empty batch for some of ms, which Batchable returned.
func NewBatch(ms []*Mutex, o *arbiter.Owner) *Batch {
	return &Batch{
		e: ms[0].e, first: ms[0], owner: o,
		asking: make([]batchEntry, 0, len(ms)), leases: make([]*lease.Lease, 0, len(ms)),
	}
}

// Batchable returns locks as Mutexes if one batch can acquire them all, else nil.
func Batchable[L any](locks []L) (ms []*Mutex) {
	if len(locks) > batchMost {
		return nil
	}
	for i, l := range locks {
		m, ok := any(l).(*Mutex)
		if !ok || m.usable("") != nil || m.e.Config.Replicas > 0 ||
			i > 0 && (m.e != ms[0].e || m.keys.Name == ms[i-1].keys.Name ||
				m.e.proto.Slot(m.keys.Name) != m.e.proto.Slot(ms[0].keys.Name)) {
			return nil
		}
		ms = append(ms, m)
	}
	return ms
}

// Add takes m's turn among the goroutines of this process. If another one has it, Add waits or
// returns i, the index of m.
func (b *Batch) Add(ctx context.Context, i int, m *Mutex, wait bool) (taken int, err error) {
	entry := batchEntry{Mutex: m, index: i}
	if m.e.audience != nil {
		call := m.newCall(b.owner, wait)
		entry.call = &call
	}
	err = ErrLateHold
	for err == ErrLateHold {
		taken, err = b.enter(ctx, entry, wait)
	}
	if taken >= 0 || err != nil {
		entry.call.End(ctx, b.e.Clock.Now(), false, err)
	}
	return taken, err
}

func (b *Batch) enter(ctx context.Context, entry batchEntry, wait bool) (taken int, err error) {
	m := entry.Mutex
	w := m.waiter(b.owner)
	ask, ok, err := m.turn(ctx, "lock", w, wait, cmp.Or(entry.call, new(Acquired)))
	if ask {
		m.leave(w) // the script asks for this lock together with others
		entry.w = w
		b.asking = append(b.asking, entry)
		b.leases = append(b.leases, m.newLease())
		return -1, nil
	}
	m.arb.Free(w)
	if ok {
		b.entered = append(b.entered, entry)
		return -1, nil
	}
	return entry.index, err
}

// Acquire sends the script. It returns the index of a member that is taken, -1 if all were
// acquired.
func (b *Batch) Acquire(ctx context.Context, wait bool) (taken int, err error) {
	if len(b.leases) > 0 {
		taken, err = b.acquire(ctx, wait)
	}
	if len(b.leases) == 0 || taken < 0 && err == nil {
		b.report(ctx, true)
		return -1, nil
	}
	return taken, err
}

// report reports the calls for the members that were acquired, or that were found taken.
func (b *Batch) report(ctx context.Context, ok bool) {
	if b.e.audience == nil {
		return
	}
	now := b.e.Clock.Now()
	for _, list := range [...][]batchEntry{b.asking, b.entered} {
		for _, m := range list {
			if ok || m.call.Contended {
				m.call.End(ctx, now, ok, nil)
			}
		}
	}
}

// acquire is Acquire if Redis must be asked.
func (b *Batch) acquire(ctx context.Context, wait bool) (taken int, err error) {
	a := b.first.attempt(ctx, "lock", nil, wait, new(Acquired))
	for backoff := timing.MinBackoff; ; backoff = min(2*backoff, timing.MaxBackoff) {
		sent := b.e.Clock.Now()
		a.asked = sent
		tokens, at, _, err := b.e.proto.AcquireAll(a.io, lease.Refs(b.leases))
		now := b.e.Clock.Now()
		switch {
		case err == nil && at >= 0:
			if call := b.asking[at].call; call != nil {
				call.Contended = true
			}
			return b.asking[at].index, nil
		case at >= 0:
			return -1, lockerr.New("lock", b.asking[at].Name(), err)
		}
		if err == nil && b.grant(tokens, sent, now) {
			return -1, nil
		}
		if err == nil {
			err = ErrLate
		}
		_, answered := transport.Code(err)
		for _, l := range b.leases {
			l.Indeterminate = l.Indeterminate || !answered
		}
		if err := a.check(err); err != nil {
			return -1, err
		}
		if _, err := a.pause(timing.Jitter(backoff), nil); err != nil {
			return -1, err
		}
	}
}

// grant makes holds of the leases, unless their deadline has passed.
func (b *Batch) grant(tokens []int64, sent, now int64) bool {
	for _, l := range b.leases {
		l.Sent, l.Since = sent, now
		l.Acquired()
		if !lease.Certain(l, now+lease.Early) {
			return false
		}
	}
	for i, l := range b.leases {
		m := b.asking[i]
		l.Token, l.Top = tokens[i], tokens[i]+wire.Tokens(tokens[i])-1
		h, _ := m.arb.Grant(m.w, l, l.Token)
		if m.call != nil {
			m.call.Hold = h
		}
		b.e.took(l, m.config.MaxHold)
	}
	return true
}

// Undo gives back what the batch has got.
func (b *Batch) Undo(ctx context.Context) {
	b.report(ctx, false)
	for i, m := range b.asking {
		m.arb.Quit(m.w)
		if l := b.leases[i]; l.Indeterminate {
			b.e.cleaner.Add(l, true, nil)
		}
	}
	for _, m := range b.entered {
		m.ReleaseInBackground(ctx, b.owner)
	}
}

// Free ends the use of b.
func (b *Batch) Free() {
	for _, m := range b.asking {
		m.arb.Free(m.w)
	}
}

// UnlockBatch ends one Lock of each of several Mutexes of an engine, and releases with one
// script those that it was the last of.
func UnlockBatch(ctx context.Context, o *arbiter.Owner, ms []*Mutex) (errs []error) {
	e := ms[0].e
	e.track()
	defer e.End()
	over := make([]*Mutex, 0, len(ms))
	ends := make([]exited, 0, len(ms))
	leases := make([]*lease.Lease, 0, len(ms))
	for _, m := range ms {
		x := m.exit(o)
		if x.outcome == arbiter.Release {
			over, ends, leases = append(over, m), append(ends, x), append(leases, x.h.Lease)
		} else {
			errs = append(errs, m.finish(ctx, "unlock", o, x))
		}
	}
	if len(over) == 0 {
		return errs
	}
	for i, r := range e.releaseTogether(ctx, leases) {
		errs = append(errs, over[i].ended(ctx, "unlock", ends[i], r))
	}
	return errs
}
