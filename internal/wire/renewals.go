package wire

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/relock-go/relock/internal/transport"
)

// renewed is the result of renewing one hold.
type renewed struct {
	Gone bool // Redis does not have it any more
	Err  error
}

// Renewal is what holds must have in common to be renewed by one script.
type Renewal struct {
	script *transport.Script
	slot   uint16 // in a cluster
}

// Renewal returns the kind of renewal of a hold.
func (p *Protocol) Renewal(l *Ref) Renewal {
	r := Renewal{p.set().renew, p.Slot(l.Keys.Name)}
	switch l.Kind {
	case Read:
		r.script = p.set().renewRead
	case Write:
		r.script = p.set().renewWrite
	}
	return r
}

// call returns the script for a batch, which must be in order of lengths.
func (r Renewal) call(holds []*Ref, batch []int) transport.Call {
	c := transport.Call{Script: r.script, Keys: make([]string, 0, 2*len(batch)), Args: make([]string, 0, len(batch)+2)}
	for _, i := range batch {
		l := holds[i]
		c.Keys = append(c.Keys, l.Keys.Name)
		if l.Kind == Read {
			c.Keys = append(c.Keys, l.Keys.timeout(l.ID))
		}
		c.Args = append(c.Args, l.ID)
	}
	for n := 0; len(batch) > 0; batch = batch[n:] {
		length := holds[batch[0]].Length
		for n = 1; n < len(batch) && holds[batch[n]].Length == length; n++ {
		}
		c.Args = append(c.Args, strconv.Itoa(n), Millis(length))
	}
	return c
}

// Renew starts the leases of holds again and returns a result for each. It sends one script
// for every BatchKeys of them, in a cluster for those of one slot, all in one pipeline. A slot
// may stay half moved for longer than a lease; meanwhile no node runs a script for keys of
// which it has only some, so those holds are renewed one by one.
func (p *Protocol) Renew(ctx context.Context, holds []*Ref) []renewed {
	out := make([]renewed, len(holds))
	all := make([]int, len(holds))
	for i := range all {
		all[i] = i
	}
	p.renewIn(ctx, holds, all, out, BatchKeys)
	var split []int
	for i := range out {
		if code, _ := transport.Code(out[i].Err); code == "TRYAGAIN" {
			out[i] = renewed{}
			split = append(split, i)
		}
	}
	if len(split) > 0 {
		p.renewIn(ctx, holds, split, out, 1)
	}
	return out
}

// renewIn renews the holds at these indices, in batches of at most most.
func (p *Protocol) renewIn(ctx context.Context, holds []*Ref, places []int, out []renewed, most int) {
	slices.SortFunc(places, func(i, j int) int { return cmp.Compare(holds[i].Length, holds[j].Length) })
	groups := make(map[Renewal][]int)
	for _, i := range places {
		r := p.Renewal(holds[i])
		groups[r] = append(groups[r], i)
	}
	var calls []transport.Call
	var batches [][]int
	for r, group := range groups {
		for batch := range slices.Chunk(group, most) {
			calls = append(calls, r.call(holds, batch))
			batches = append(batches, batch)
		}
	}
	for i, r := range p.EvalAll(ctx, calls) {
		gone, err := r.AsIntSlice()
		for _, at := range batches[i] {
			out[at].Err = err
		}
		for _, n := range gone {
			out[batches[i][n-1]].Gone = true
		}
	}
}
