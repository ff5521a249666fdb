package wire

import (
	"context"
	"slices"

	"github.com/relock-go/relock/internal/transport"
)

// inBatches runs scripts for refs: one for every BatchKeys that have the same group, all in one
// pipeline. script returns the call for the refs at these indices, which it may reorder; done gets
// the reply to it.
//
// A key that this user may not touch any more, that somebody has damaged, or that is on another
// node while its slot is being moved, fails the script for the whole batch. So the refs of a batch
// that was refused are sent again one by one, and only those of that key fail. Each script may be
// sent twice.
func inBatches[G comparable](ctx context.Context, p *Protocol, refs []*Ref, group func(*Ref) G,
	script func(G, []int) transport.Call, done func(batch []int, reply []int64, err error)) {
	left := make(map[G][]int)
	for i, l := range refs {
		g := group(l)
		left[g] = append(left[g], i)
	}
	for most := BatchKeys; len(left) > 0; most = 1 {
		var calls []transport.Call
		var groups []G
		var batches [][]int
		for g, places := range left {
			for batch := range slices.Chunk(places, most) {
				calls, groups, batches = append(calls, script(g, batch)), append(groups, g), append(batches, batch)
			}
		}
		left = make(map[G][]int)
		for i, r := range p.EvalAll(ctx, calls) {
			reply, err := r.AsIntSlice()
			if g, batch := groups[i], batches[i]; len(batch) > 1 && transport.OfKeys(err) {
				left[g] = append(left[g], batch...)
			} else {
				done(batch, reply, err)
			}
		}
	}
}
