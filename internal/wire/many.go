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

// Poll polls for waiters in queues. For each it returns the reply that Acquire would get.
func (p *Protocol) Poll(ctx context.Context, ls []*Ref) (replies []Reply, errs []error) {
	replies, errs = make([]Reply, len(ls)), make([]error, len(ls))
	fill := func(c *transport.Call, batch []int, _ bool) {
		c.Script = p.script(ls[batch[0]].Kind.of().polling())
		c.Args = append(c.Args, p.numsub())
		for _, i := range batch {
			ls[i].Kind.of().poll(p, ls[i], c)
		}
	}
	p.inBatches(ctx, ls, kind.polling, fill, func(batch []int, reply []int64, _ bool, err error) {
		for i, at := range batch {
			switch n := reply[min(3*i, len(reply)):]; {
			case err != nil:
				errs[at] = err
			case len(n) < 3:
				errs[at] = errReply
			default:
				replies[at] = ls[at].Kind.of().reply(ls[at], n[0], n[1], n[2])
			}
		}
	})
	return replies, errs
}

// renewed is the result of renewing one hold.
type renewed struct {
	Gone  bool // Redis does not have it any more
	Alone bool // it was sent without its fence key, to which no note was written
	Err   error
}

// Renew starts the leases of holds again and returns a result for each.
func (p *Protocol) Renew(ctx context.Context, holds []*Ref) []renewed {
	out := make([]renewed, len(holds))
	fill := func(c *transport.Call, batch []int, alone bool) {
		k := holds[batch[0]].Kind.of()
		c.Script = p.script(k.renewal())
		slices.SortStableFunc(batch, func(i, j int) int { return holds[i].compareRun(holds[j]) })
		for _, i := range batch {
			k.renew(holds[i], c)
		}
		if !k.joins() && !alone {
			for _, i := range batch {
				c.Keys = append(c.Keys, holds[i].Keys.fence)
			}
		}
		for n := 0; len(batch) > 0; batch = batch[n:] {
			first := holds[batch[0]]
			for n = 1; n < len(batch) && holds[batch[n]].compareRun(first) == 0; n++ {
			}
			c.Args = append(c.Args, strconv.Itoa(n), Millis(first.Length))
			if !k.joins() {
				c.Args = append(c.Args, flag(!first.Renewed), first.Note)
			}
		}
	}
	p.inBatches(ctx, holds, kind.renewal, fill, func(batch []int, reply []int64, alone bool, err error) {
		for _, at := range batch {
			out[at].Err, out[at].Alone = err, alone
		}
		for _, n := range reply {
			out[batch[n-1]].Gone = true
		}
	})
	return out
}

// compareRun orders holds so that those whose leases are renewed alike follow one another.
func (l *Ref) compareRun(other *Ref) int {
	return cmp.Or(cmp.Compare(l.Length, other.Length), cmp.Compare(flag(l.Renewed), flag(other.Renewed)), cmp.Compare(l.Note, other.Note))
}

// inBatches runs a script for refs: once for every BatchKeys of those that have the same one, in a
// cluster for those of one slot, all in one pipeline. fill makes the call for the refs at these
// indices, which it may reorder; done gets the reply to it.
//
// A key that this user may not touch any more, that somebody has damaged, or that is on another
// node while its slot is being moved, fails the script for the whole batch. So the refs of a batch
// that was refused are sent again one by one, each alone with as few keys as possible, and only
// those of that key fail. Each script may be sent twice.
func (p *Protocol) inBatches(ctx context.Context, refs []*Ref, script func(kind) string,
	fill func(c *transport.Call, batch []int, alone bool), done func(batch []int, reply []int64, alone bool, err error)) {
	type group struct {
		script string
		slot   uint16
	}
	groups := make(map[group][]int)
	for i, l := range refs {
		g := group{script(l.Kind.of()), p.Slot(l.Keys.Name)}
		groups[g] = append(groups[g], i)
	}
	var batches [][]int
	for _, all := range groups {
		batches = slices.AppendSeq(batches, slices.Chunk(all, BatchKeys))
	}
	for alone := false; len(batches) > 0; alone = true {
		calls := make([]transport.Call, len(batches))
		for i, batch := range batches {
			fill(&calls[i], batch, alone)
		}
		var again [][]int
		for i, r := range p.EvalAll(ctx, calls) {
			batch := batches[i]
			reply, err := r.AsIntSlice()
			if !alone && transport.OfKeys(err) {
				again = slices.AppendSeq(again, slices.Chunk(batch, 1))
			} else {
				done(batch, reply, alone, err)
			}
		}
		batches = again
	}
}
