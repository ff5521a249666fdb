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
	switch {
	case a.p.ctx.Err() != nil:
	case errors.Is(err, relock.ErrLost) || errors.Is(err, relock.ErrClosed):
		if !closed(c.done) {
			a.w.fail("an owner re-enters", "%v: %v", err, c)
		}
	case err != nil && !closed(c.done):
		a.w.fail("an owner re-enters", "%v: %v", err, c)
	case err == nil && time.Since(start) > 0:
		a.w.fail("an owner re-enters", "after %v: %v", time.Since(start), c)
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
	var members []relock.Locker
	var deadlines []func() (time.Time, bool)
	for _, p := range c.parts {
		l, deadline := p.locker(c.p, opts)
		members, deadlines = append(members, l), append(deadlines, deadline)
	}
	c.lock = members[0]
	if len(members) > 1 {
		c.lock = relock.NewGroup(members...)
	}
	c.deadline = func() (first time.Time, ok bool) {
		for i, deadline := range deadlines {
			d, held := deadline()
			if !held {
				return d, false
			}
			if i == 0 || d.Before(first) {
				first = d
			}
		}
		return first, true
	}
	c.tokensOf = func() (tokens []int64) {
		for _, l := range members {
			token := int64(0)
			if f, ok := l.(interface{ FencingToken() int64 }); ok {
				token = f.FencingToken()
			}
			tokens = append(tokens, token)
		}
		return tokens
	}
}

// locker returns a lock, and what tells its deadline.
func (p part) locker(proc *process, opts []relock.LockOption) (relock.Locker, func() (time.Time, bool)) {
	s := proc.s[0]
	switch p.kind {
	case mutex:
		l := s.Mutex(p.name, opts...)
		return l, l.Deadline
	case fair:
		l := s.FairMutex(p.name, opts...)
		return l, l.Deadline
	case writer:
		l := s.RWMutex(p.name, opts...)
		return l, l.Deadline
	case reader:
		l := s.RWMutex(p.name, opts...)
		return l.RLocker(), func() (time.Time, bool) { return peek.ReadDeadline(l) }
	default:
		l := relock.NewRedlock(proc.s, p.name, opts...)
		return l, l.Deadline
	}
}
