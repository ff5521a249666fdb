package relock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What is left of a lease is less by the time that the round took, and by the drift of
// clocks: a hundredth of the lease, and 2 ms. All of it counts, and nothing twice.
func TestValidityOfARedlock(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct{ lease, elapsed, want time.Duration }{
		{30 * time.Second, 0, 29698 * ms},
		{30 * time.Second, ms, 29697 * ms},
		{30 * time.Second, time.Second, 28698 * ms},
		{30 * time.Second, 29697 * ms, ms},
		{30 * time.Second, 29698 * ms, 0},
		{30 * time.Second, 29698*ms + 1, -1},
		{30 * time.Second, time.Minute, -30302 * ms},
		{time.Second, 0, 988 * ms},
		{time.Second, 987*ms + 999*time.Microsecond, time.Microsecond},
		{time.Second, 988 * ms, 0},
		{10 * ms, 0, 7900 * time.Microsecond},
		{10 * ms, 8 * ms, -100 * time.Microsecond},
		{2 * ms, 0, -20 * time.Microsecond}, // nothing can be taken for so short
		{0, 0, -2 * ms},
		{time.Hour, 0, time.Hour - 36*time.Second - 2*ms},
	} {
		require.Equal(t, c.want, validity(c.lease, c.elapsed), "%v after %v", c.lease, c.elapsed)
	}
}

// The local deadlines of the parts are stricter than that or not by more than a moment,
// and they are what tells of a loss: the margin of each is at most the drift of all.
func TestMarginOfAPartIsWithinTheDriftOfARedlock(t *testing.T) {
	for _, lease := range []time.Duration{minLease, time.Second, 30 * time.Second, time.Hour} {
		require.LessOrEqual(t, validity(lease, 0), lease-margin(lease), "%v", lease)
	}
}

func TestQuorumAndBoundsOfARedlock(t *testing.T) {
	for n, quorum := range map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 4, 9: 5} {
		r := &Redlock{nodes: make([]*node, n)}
		require.Equal(t, quorum, r.quorum(), "%d deployments", n)
		require.Greater(t, 2*quorum, n, "two majorities of %d must meet", n)
		require.LessOrEqual(t, quorum, n)
	}
	for _, c := range []struct{ lease, bound, grace time.Duration }{
		{10 * time.Millisecond, 20 * time.Millisecond, 20 * time.Millisecond},
		{400 * time.Millisecond, 20 * time.Millisecond, 200 * time.Millisecond},
		{time.Second, 50 * time.Millisecond, 500 * time.Millisecond},
		{10 * time.Second, 500 * time.Millisecond, time.Second},
		{30 * time.Second, time.Second, time.Second},
		{time.Hour, time.Second, time.Second},
	} {
		r := &Redlock{lease: c.lease}
		require.Equal(t, c.bound, r.bound(), "%v", c.lease)
		require.Equal(t, c.grace, r.grace(), "%v", c.lease)
	}
}
