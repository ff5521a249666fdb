package interop_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
)

// Redisson 3.x renews the rwlock_timeout keys of only one of the read locks that a
// process holds, so those of the others end while their readers live. Only the lease of
// the whole lock tells that. A writer of relock must not take them for dead, also when
// readers of relock have prolonged that lease in between and left.
func TestWriterDoesNotPruneLiveReadersOfRedisson(t *testing.T) {
	t.Parallel()
	eachRedisson(t, func(t *testing.T, version string) {
		t.Parallel()
		const lease = 2 * time.Second
		at := single(redistest.Start(t), lease)
		g, j := at.start(t, ""), at.start(t, version)
		names := []string{"a", "b", "c"}
		var writers []*call
		for _, name := range names {
			j.do("reader", "lock", "read", name)
			g.do("reader", "lock", "read", name)
			writers = append(writers, g.begin(name, "lock", "write", name))
		}
		wait := func(leases float64) {
			t.Helper()
			writers[0].waits(time.Duration(leases * float64(lease)))
			for _, c := range writers {
				c.waits(0)
			}
		}
		wait(2.5)
		for _, name := range names {
			g.do("reader", "unlock", "read", name)
		}
		wait(2.5)
		for i, c := range writers {
			j.do("reader", "unlock", "read", names[i])
			c.must()
		}
	})
}
