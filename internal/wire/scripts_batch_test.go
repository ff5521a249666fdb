package wire

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// locks returns n leases that are held, of these kinds in turns, with 15 seconds to go.
func (r *rig) locks(n int, kinds ...Kind) (ls []*Ref) {
	r.t.Helper()
	for i := range n {
		l := newLease(kinds[i%len(kinds)], fmt.Sprint("lock", i), i)
		r.take(l)
		r.must("PEXPIRE", l.Keys.Name, "15000")
		if l.Kind == Read {
			r.must("PEXPIRE", l.Keys.timeout(l.ID), "15000")
		}
		ls = append(ls, l)
	}
	return ls
}

// A script renews 100 holds of one kind, of whatever lengths.
func TestRenewGoesOutInBatchesAndReportsGone(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		ls := r.locks(250, Plain, Read)
		gone := map[int]bool{}
		for i, l := range ls {
			l.Length = time.Duration(20+10*(i%4)) * time.Second
		}
		for n, i := range []int{0, 5, 98, 101, 150, 199, 202, 248, 249} {
			gone[i] = true
			l, name := ls[i], ls[i].Keys.Name
			if l.Kind == Read && n%2 == 0 { // its own lease has ended
				r.must("DEL", l.Keys.timeout(l.ID))
				continue
			}
			r.must("DEL", name)
			switch n % 4 { // at 3 there is no key
			case 0: // another holder
				r.must("HSET", name, id("o:1"), "1")
				r.must("PEXPIRE", name, "15000")
			case 1: // something else
				r.must("SET", name, "no lock", "PX", "15000")
			case 2: // another holder's, as after a change of type
				r.must("HSET", name, "mode", "read", l.ID+"0", "1")
				r.must("PEXPIRE", name, "15000")
			}
		}
		r.must("PERSIST", ls[6].Keys.Name)

		r.Renew(ctx0, ls[:2]) // now the server knows the scripts
		var results []renewed
		cost := r.cost(func() { results = r.Renew(ctx0, ls) })
		if !r.mini {
			require.EqualValues(t, 4, cost.runs, "125 holds of each kind")
		}
		require.Len(t, results, len(ls))
		for i, l := range ls {
			require.NoError(t, results[i].Err)
			require.Equal(t, gone[i], results[i].Gone, "hold %d", i)
			if gone[i] {
				require.LessOrEqual(t, r.pttl(l.Keys.Name), 15*time.Second)
				continue
			}
			r.mustNear("time to live", r.pttl(l.Keys.Name), l.Length)
			if l.Kind == Read {
				r.mustNear("the reader's key", r.pttl(l.Keys.timeout(l.ID)), l.Length)
			}
		}
		require.Empty(t, r.Renew(ctx0, nil))
	})
}

// After SCRIPT FLUSH, or on a server that was restarted, every call falls back.
func TestEveryCallGetsByWithoutItsScript(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		for _, k := range kinds {
			fields, second := 1, "taken"
			switch k {
			case Write:
				fields = 2 // with its mode
			case Read:
				fields, second = 2, "reads"
			}
			for _, c := range []struct {
				call func(r *rig) string
				want string
			}{
				{renews(k, 1), "kept"}, {inspects, fmt.Sprint("waiters 0, fields ", fields)}, {tries(k, 2), second},
				{ends(k, 1), "told 0"}, {forces, "opened true"},
			} {
				r.must("SCRIPT", "FLUSH")
				has(k, 1)(r)
				if k == Read {
					r.must("SCRIPT", "FLUSH")
					require.Equal(t, "other", joins(1, 3)(r))
				}
				r.must("SCRIPT", "FLUSH")
				require.Equal(t, c.want, c.call(r))
			}
		}
		ls := r.locks(250, Plain)
		r.must("SCRIPT", "FLUSH")
		r.renews(ls...)
		r.must("SCRIPT", "FLUSH")
		told, errs := r.ReleaseAll(ctx0, ls)
		for i, l := range ls {
			require.NoError(t, errs[i])
			require.Zero(t, told[i])
			require.Zero(t, r.int("EXISTS", l.Keys.Name))
		}
	})
}
