package sim_test

import (
	"context"
	"errors"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
)

// handOff ends a call's hold by a Handoff; another process adopts it, and unlocks.
func (a *actor) handOff(ctx context.Context, c *call) {
	w, p := a.w, a.w.procs[(a.p.id+1)%len(a.w.procs)]
	w.mu.Lock()
	w.passed[c.parts[0].name] = true
	c.kept = a.p.lease // until somebody has adopted it
	w.mu.Unlock()
	w.unlocking(c)
	ticket, err := c.hold().Handoff(ctx, c.kept)
	w.unlocked(c, err)
	if err != nil || p.ctx.Err() != nil {
		return
	}
	next := &call{op: c.op, p: p, actor: a.id, parts: c.parts, nested: true}
	w.calling(next)
	hold, err := p.s[0].Adopt(p.ctx, ticket)
	next.lock = &kit.HoldLocker{Hold: hold}
	w.returned(next, err == nil, err)
	w.mu.Lock()
	switch {
	case err == nil:
		c.kept = 0
	case errors.Is(err, relock.ErrLost) && len(w.troubles) == 0:
		w.fail("a ticket is good until its end", "%v: %v", err, c)
	}
	w.mu.Unlock()
	if _, again := p.s[0].Adopt(p.ctx, ticket); again == nil {
		w.fail("a ticket works once", "%v", c)
	}
	if err == nil {
		a.sleep(c.op.section/2, next.ends)
		a.unlock(p.ctx, next)
	}
}
