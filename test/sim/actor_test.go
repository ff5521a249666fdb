package sim_test

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/peek"
)

type actor struct {
	w  *world
	id int
	p  *process
}

// act does one op after the other, until the process vanishes or its session is closed.
func (a *actor) act(ops []op) {
	for i := range ops {
		if a.sleep(ops[i].pause, nil); a.p.ctx.Err() != nil || a.w.hadEnough() {
			return
		}
		if err := a.do(&ops[i]); errors.Is(err, relock.ErrClosed) {
			return
		}
	}
}

// sleep waits for d, or until the process vanishes or end is closed.
func (a *actor) sleep(d time.Duration, end <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.p.ctx.Done():
	case <-end:
	}
}

func (a *actor) do(o *op) error {
	ctx := a.p.ctx
	if o.owned {
		ctx = a.p.s[0].NewContext(ctx)
	}
	c := &call{op: o, p: a.p, actor: a.id, parts: o.parts}
	c.make()
	if held, err := a.lock(ctx, c); !held {
		return err
	}
	a.section(c, o.section/2)
	if o.reenter {
		a.reenter(ctx, c)
	}
	var read *call
	if o.reads {
		read = &call{op: o, p: a.p, actor: a.id, parts: []part{{reader, o.parts[0].name}}, owner: c.owner, nested: true}
		read.make()
		if held, _ := a.lock(ctx, read); !held {
			read = nil
		}
	}
	a.section(c, o.section-o.section/2)
	a.unlock(ctx, c)
	if read != nil {
		a.section(read, o.section/2)
		a.unlock(ctx, read)
	}
	return nil
}

// lock locks, and reports whether that gave a hold.
func (a *actor) lock(ctx context.Context, c *call) (held bool, err error) {
	if c.op.patience > 0 && !c.nested {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.op.patience)
		defer cancel()
	}
	a.w.calling(c)
	if c.op.try {
		held, err = c.lock.TryLock(ctx)
	} else {
		err = c.lock.Lock(ctx)
		held = err == nil
	}
	a.w.returned(c, held, err)
	return held, err
}

func (a *actor) section(c *call, d time.Duration) {
	if c.op.heeds {
		a.sleep(d, c.done)
	} else {
		a.sleep(d, nil)
	}
}

func (a *actor) unlock(ctx context.Context, c *call) {
	a.w.unlocking(c)
	a.w.unlocked(c, c.lock.Unlock(ctx))
}

// reenter locks through another handle what the owner holds, and unlocks that again.
func (a *actor) reenter(ctx context.Context, c *call) {
	again := &call{op: c.op, p: c.p, parts: c.parts}
	again.make()
	start := time.Now()
	err := again.lock.Lock(ctx)
	took := time.Since(start)
	if a.p.ctx.Err() == nil && (err == nil && took > 0 || err != nil && !closed(c.done)) {
		a.w.fail("an owner re-enters", "after %v: %v: %v", took, err, c)
	}
	if err == nil {
		if err := again.lock.Unlock(ctx); err != nil && !closed(c.done) {
			a.w.fail("an owner re-enters", "unlock: %v: %v", err, c)
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// make makes the handle of a call, a new one for each.
func (c *call) make() {
	var opts []relock.LockOption
	if c.op.lease > 0 && !c.nested {
		opts = append(opts, relock.WithLease(c.op.lease))
	}
	if c.op.fixed > 0 {
		opts = append(opts, relock.WithFixedLease(c.op.fixed))
	}
	if c.op.maxHold > 0 {
		opts = append(opts, relock.WithMaxHold(c.op.maxHold))
	}
	var lockers []relock.Locker
	for _, p := range c.parts {
		m := p.member(c.p, opts)
		c.members = append(c.members, m)
		if r, ok := m.(readSide); ok { // a Group takes the locks themselves
			lockers = append(lockers, r.Locker)
		} else {
			lockers = append(lockers, m)
		}
	}
	if c.lock = lockers[0]; len(lockers) > 1 {
		c.lock = relock.NewGroup(lockers...)
	}
}

// deadline returns the first deadline of a call's locks, and whether it has all of them.
func (c *call) deadline() (first time.Time, ok bool) {
	for i, m := range c.members {
		d, held := m.Deadline()
		if !held {
			return d, false
		}
		if i == 0 || d.Before(first) {
			first = d
		}
	}
	return first, true
}

func (c *call) tokensOf() (tokens []int64) {
	for _, m := range c.members {
		token := int64(0)
		if f, ok := m.(interface{ FencingToken() int64 }); ok {
			token = f.FencingToken()
		}
		tokens = append(tokens, token)
	}
	return tokens
}

// A member is a lock that tells its deadline.
type member interface {
	relock.Locker
	Deadline() (time.Time, bool)
}

// readSide is the side of readers.
type readSide struct {
	relock.Locker
	rw *relock.RWMutex
}

func (r readSide) Deadline() (time.Time, bool) { return peek.Reader(r.rw).Deadline() }

func (p part) member(proc *process, opts []relock.LockOption) member {
	s := proc.s[0]
	switch p.kind {
	case mutex:
		return s.Mutex(p.name, opts...)
	case fair:
		return s.FairMutex(p.name, opts...)
	case writer:
		return s.RWMutex(p.name, opts...)
	case reader:
		rw := s.RWMutex(p.name, opts...)
		return readSide{rw.RLocker(), rw}
	}
	return relock.NewRedlock(proc.s, p.name, opts...)
}
