package relock_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A process with one processor, which it uses up, renews late and is told late, but
// what it takes for certain is certain.
func TestProcessWithoutProcessorTimeKeepsToItsDeadlines(t *testing.T) {
	const lease = 1500 * time.Millisecond
	s := redistest.Start(t)
	hog := startWorker(t, "hog", s, "it", worker{goroutines: 2, lease: lease, slow: 20, hogs: 2})
	other := startWorker(t, "other", s, "it", worker{goroutines: 2, lease: lease, slow: 2})
	for range 2 {
		time.Sleep(lease)
		redistest.Eventually(t, soon, "the hog to hold the lock", func() bool {
			id := holderID(t, s, "it")
			return len(id) > len(hog.session) && id[:len(hog.session)] == hog.session
		})
		require.NoError(t, s.Freeze())
		time.Sleep(lease * 3 / 2)
		require.NoError(t, s.Thaw())
	}
	time.Sleep(lease)
	hog.stop(t)
	other.stop(t)
	r, o := hog.report(t), other.report(t)
	t.Logf("hog: %d holds, %d lost, told %v after the deadline at most; other: %d holds, %d lost, %v",
		len(r.holds), r.lost, r.late, len(o.holds), o.lost, o.late)
	checkSweep(t, append(r.holds, o.holds...))
	require.Greater(t, len(r.holds), 2)
	require.Greater(t, len(o.holds), 5)
	require.Positive(t, r.lost+o.lost)
	require.Less(t, r.late, slack, "told of a loss that long after the deadline")
}
