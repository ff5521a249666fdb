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
	if l.Kind == Read {
		return Renewal{p.set().renewRead, p.Slot(l.Keys.Name)}
	}
	return Renewal{p.set().renew, p.Slot(l.Keys.Name)}
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
// for every BatchKeys of them, in a cluster for those of one slot.
func (p *Protocol) Renew(ctx context.Context, holds []*Ref) []renewed {
	out := make([]renewed, len(holds))
	script := func(r Renewal, batch []int) transport.Call {
		slices.SortStableFunc(batch, func(i, j int) int { return cmp.Compare(holds[i].Length, holds[j].Length) })
		return r.call(holds, batch)
	}
	inBatches(ctx, p, holds, p.Renewal, script, func(batch []int, reply []int64, err error) {
		for _, at := range batch {
			out[at].Err = err
		}
		for _, n := range reply {
			out[batch[n-1]].Gone = true
		}
	})
	return out
}
