package relock

import (
	"context"
	"slices"
	"time"
)

// renewed is what became of one hold in a batch of renewals.
type renewed struct {
	lease *lease
	gone  bool
	err   error
}

// renewal is what holds must have in common to go into one script.
type renewal struct {
	script *script
	length time.Duration
	slot   uint16 // in a cluster
}

// renewal returns what is renewed together with a hold.
func (p *protocol) renewal(l *lease) renewal {
	r := renewal{renewScript, l.length, p.slot(l.keys.name)}
	switch l.kind {
	case read:
		r.script = renewReadScript
	case write:
		r.script = renewWriteScript
	}
	return r
}

// call returns the script for a batch.
func (r renewal) call(batch []*lease) call {
	c := call{r.script, make([]string, 0, 2*len(batch)), make([]string, 1, len(batch)+1)}
	c.args[0] = millis(r.length)
	for _, l := range batch {
		c.keys = append(c.keys, l.keys.name)
		if l.kind == read {
			c.keys = append(c.keys, l.keys.timeout(l.id))
		}
		c.args = append(c.args, l.id)
	}
	return c
}

// renew starts the leases of holds anew: one script for each batchKeys of them, and
// in a cluster of one slot, all in one pipeline per node. A slot that is being moved may
// take longer than a lease, and meanwhile no node runs a script for keys of which it has
// some and not others: those are renewed one by one then.
func (p *protocol) renew(ctx context.Context, ls []*lease) []renewed {
	out := p.renewIn(ctx, ls, batchKeys)
	var split []*lease
	out = slices.DeleteFunc(out, func(r renewed) bool {
		if r.err == nil {
			return false
		}
		code, _ := redisError(r.err)
		if code == "TRYAGAIN" {
			split = append(split, r.lease)
		}
		return code == "TRYAGAIN"
	})
	if len(split) > 0 {
		out = append(out, p.renewIn(ctx, split, 1)...)
	}
	return out
}

// renewIn renews holds in batches of at most so many.
func (p *protocol) renewIn(ctx context.Context, ls []*lease, most int) []renewed {
	groups := make(map[renewal][]*lease)
	for _, l := range ls {
		r := p.renewal(l)
		groups[r] = append(groups[r], l)
	}
	var calls []call
	var batches [][]*lease
	for r, group := range groups {
		for batch := range slices.Chunk(group, most) {
			calls = append(calls, r.call(batch))
			batches = append(batches, batch)
		}
	}
	out := make([]renewed, 0, len(ls))
	for i, r := range p.evalAll(ctx, calls) {
		start := len(out)
		gone, err := r.AsIntSlice()
		for _, l := range batches[i] {
			out = append(out, renewed{lease: l, err: err})
		}
		for _, n := range gone {
			out[start+int(n)-1].gone = true
		}
	}
	return out
}
