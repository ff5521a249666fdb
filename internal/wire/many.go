package wire

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/relock-go/relock/internal/transport"
)

// BatchKeys is how many holds one script renews, or looks after. The server serves nobody else
// while it runs, about 100 µs.
const BatchKeys = 100

// Poll refreshes waiters in queues. For each it returns the reply that Acquire would get,
// Theirs, LostPlace, Tokenless or HasPermit.
func (p *Protocol) Poll(ctx context.Context, ls []*Ref) (replies []int64, errs []error) {
	replies, errs = make([]int64, len(ls)), make([]error, len(ls))
	fill := func(c *transport.Call, batch []int) {
		c.Script = p.script("look")
		for _, i := range batch {
			l, k := ls[i], ls[i].Keys
			c.Keys = append(c.Keys, k.Name, k.fence, k.aux)
			c.Args = append(c.Args, l.ID, Millis(l.Length), grantMS(l), k.Prefix)
		}
	}
	p.inBatches(ctx, ls, fill, func(batch []int, reply []int64, err error) {
		for i, at := range batch {
			if errs[at] = err; err == nil {
				replies[at] = reply[i]
			}
		}
	})
	return replies, errs
}

// renewed is the result of renewing one hold.
type renewed struct {
	Gone bool // Redis does not have it any more
	Err  error
}

// Renew starts the leases of holds again and returns a result for each.
func (p *Protocol) Renew(ctx context.Context, holds []*Ref) []renewed {
	out := make([]renewed, len(holds))
	fill := func(c *transport.Call, batch []int) {
		c.Script = p.script(holds[batch[0]].Kind.of().renewal())
		slices.SortStableFunc(batch, func(i, j int) int { return cmp.Compare(holds[i].Length, holds[j].Length) })
		for _, i := range batch {
			holds[i].Kind.of().renew(holds[i], c)
		}
		for n := 0; len(batch) > 0; batch = batch[n:] {
			length := holds[batch[0]].Length
			for n = 1; n < len(batch) && holds[batch[n]].Length == length; n++ {
			}
			c.Args = append(c.Args, strconv.Itoa(n), Millis(length))
		}
	}
	p.inBatches(ctx, holds, fill, func(batch []int, reply []int64, err error) {
		for _, at := range batch {
			out[at].Err = err
		}
		for _, n := range reply {
			out[batch[n-1]].Gone = true
		}
	})
	return out
}

// inBatches runs a script for refs: once for every BatchKeys of those that one script renews, in a
// cluster for those of one slot, all in one pipeline. fill makes the call for the refs at these
// indices, which it may reorder; done gets the reply to it.
//
// A key that this user may not touch any more, that somebody has damaged, or that is on another
// node while its slot is being moved, fails the script for the whole batch. So the refs of a batch
// that was refused are sent again one by one, and only those of that key fail. Each script may be
// sent twice.
func (p *Protocol) inBatches(ctx context.Context, refs []*Ref, fill func(c *transport.Call, batch []int),
	done func(batch []int, reply []int64, err error)) {
	type group struct {
		renewal string
		slot    uint16
	}
	groups := make(map[group][]int)
	for i, l := range refs {
		g := group{l.Kind.of().renewal(), p.Slot(l.Keys.Name)}
		groups[g] = append(groups[g], i)
	}
	var batches [][]int
	for _, all := range groups {
		batches = slices.AppendSeq(batches, slices.Chunk(all, BatchKeys))
	}
	for len(batches) > 0 {
		calls := make([]transport.Call, len(batches))
		for i, batch := range batches {
			fill(&calls[i], batch)
		}
		var again [][]int
		for i, r := range p.EvalAll(ctx, calls) {
			batch := batches[i]
			reply, err := r.AsIntSlice()
			if len(batch) > 1 && transport.OfKeys(err) {
				again = slices.AppendSeq(again, slices.Chunk(batch, 1))
			} else {
				done(batch, reply, err)
			}
		}
		batches = again
	}
}
