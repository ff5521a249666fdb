package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A long queue is indexed by Redis at some time while contenders come and go, and keeps its order.
func TestALongQueueIsIndexed(t *testing.T) {
	t.Parallel()
	const long, soon = 40, 5000 // contenders; those that come until it is indexed
	for kind, queue := range map[Kind]string{Plain: plainQueue, Write: rwQueue} {
		onRigs(t, func(t *testing.T, r *rig) {
			encoding := func() string { return r.text("OBJECT", "ENCODING", queue) }
			r.take(r.lease(kind, 1))
			var waiting []*Ref
			add := func(n int) {
				waiting = append(waiting, r.lease(kind, n))
				r.queues(waiting[len(waiting)-1])
			}
			for n := range long {
				add(2 + n)
			}
			for n := range soon {
				if n > 128 && (r.mini || encoding() == "skiplist") {
					break
				}
				r.end(waiting[0]) // gives its place up
				waiting = waiting[1:]
				add(2 + long + n)
			}
			if !r.mini {
				require.Equal(t, "skiplist", encoding())
			}
			var want []string
			for _, l := range waiting {
				want = append(want, l.ID)
			}
			require.Equal(t, want, r.texts("ZRANGE", queue, "0", "-1"))
		})
	}
}
