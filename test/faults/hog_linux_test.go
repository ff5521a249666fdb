package faults_test

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A process with one processor, which it uses up, renews late and is told late, but
// what it takes for certain is certain.
func TestProcessWithoutProcessorTimeKeepsToItsDeadlines(t *testing.T) {
	t.Parallel()
	const lease = time.Second
	s := redistest.Start(t)
	hog := startWorker(t, "hog", s, "it", worker{goroutines: 2, lease: lease, section: 4 * lease, hogs: 2})
	other := startWorker(t, "other", s, "it", worker{goroutines: 1, lease: lease, rest: lease / 4})
	before := ""
	redistest.Eventually(t, 2*kit.Soon, "a section of the hog to begin", func() bool {
		id := holderID(t, s, "it")
		if !strings.HasPrefix(id, hog.session) {
			return false
		}
		before = cmp.Or(before, id)
		return id != before
	})
	require.NoError(t, s.Freeze())
	time.Sleep(lease * 3 / 2)
	require.NoError(t, s.Thaw())
	time.Sleep(3 * lease)
	hog.stop(t)
	other.stop(t)
	r, o := hog.report(t), other.report(t)
	t.Logf("hog: %d holds, %d lost, told %v after the deadline at most; other: %d holds, %d lost, %v",
		len(r.holds), r.lost, r.late, len(o.holds), o.lost, o.late)
	checkSweep(t, append(r.holds, o.holds...))
	require.NotEmpty(t, r.holds)
	require.NotEmpty(t, o.holds)
	require.Positive(t, r.lost+o.lost)
}
