package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A long queue is indexed by Redis at some time while contenders come and go, and keeps its order.
func TestALongQueueIsIndexed(t *testing.T) {
	t.Parallel()
	const long, soon = 40, 5000 // contenders; those that come until it is indexed
	for kind, queue := range map[Kind]string{Plain: "relock_queue:{a}", Write: "relock_rwqueue:{a}"} {
		onRWRigs(t, func(t *testing.T, r *rwRig) {
			encoding := func() string { return r.text("OBJECT", "ENCODING", queue) }
			r.take(r.lease(kind, 1))
			var waiting []*Ref
			add := func(n int) *Ref {
				l := r.lease(kind, n)
				token, _, err := r.Acquire(ctx0, l, Millis(l.Length), true)
				require.NoError(t, err)
				require.Zero(t, token)
				return l
			}
			for n := range long {
				waiting = append(waiting, add(2+n))
			}
			for n := range soon {
				if n > 128 && (r.mini || encoding() == "skiplist") {
					break
				}
				r.end(waiting[0]) // gives its place up
				waiting = append(waiting[1:], add(2+long+n))
			}
			if !r.mini {
				require.Equal(t, "skiplist", encoding())
			}
			got, err := r.Do("ZRANGE", queue, "0", "-1").AsStrSlice()
			require.NoError(t, err)
			var want []string
			for _, l := range waiting {
				want = append(want, l.ID)
			}
			require.Equal(t, want, got)
		})
	}
}
