package quorum

import (
	"fmt"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/session"
	"github.com/stretchr/testify/require"
)

const leastLease = 10 * time.Millisecond // that a session takes

// What is left of a lease is less by the time that the round took, and by the drift of
// clocks: a hundredth of the lease, and 2 ms. All of it counts, and nothing twice.
func TestValidityIsTheLeaseLessTheRoundAndTheDrift(t *testing.T) {
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
	for _, length := range []time.Duration{leastLease, time.Second, 30 * time.Second, time.Hour} {
		require.LessOrEqual(t, validity(length, 0), length-lease.Margin(length), "%v", length)
	}
}

func TestAnyTwoMajoritiesMeet(t *testing.T) {
	for n, quorum := range map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 4, 9: 5} {
		r := &Redlock{nodes: make([]*acquire.Lock, n)}
		require.Equal(t, quorum, r.quorum(), "%d deployments", n)
		require.Greater(t, 2*quorum, n, "two majorities of %d must meet", n)
		require.LessOrEqual(t, quorum, n)
	}
}

func TestDeploymentIsWaitedForForAPartOfTheLease(t *testing.T) {
	for lease, bound := range map[time.Duration]time.Duration{
		10 * time.Millisecond: 20 * time.Millisecond, 400 * time.Millisecond: 20 * time.Millisecond, time.Second: 50 * time.Millisecond,
		10 * time.Second: 500 * time.Millisecond, 30 * time.Second: time.Second, time.Hour: time.Second,
	} {
		require.Equal(t, bound, (&Redlock{lease: lease}).bound(), "%v", lease)
	}
}

// sessions returns sessions of different deployments, with these leases. They send
// nothing.
func sessions(leases ...time.Duration) (all []*acquire.Node) {
	for i, length := range leases {
		s := session.New(nil, acquire.Config{Lease: length})
		s.SetDeployment(fmt.Sprint("deployment ", i))
		all = append(all, s.Node)
	}
	return all
}

func TestShortestLeaseOfTheDeploymentsCounts(t *testing.T) {
	all := sessions(30*time.Second, 10*time.Second, time.Minute)
	require.Equal(t, 10*time.Second, New(all, "a", acquire.LockConfig{}).lease)
	require.Equal(t, 20*time.Second, New(all, "a", acquire.LockConfig{Lease: 20 * time.Second}).lease, "unless the lock has its own")
}

// Which session's clock and queue count does not depend on the order of the sessions.
func TestRedlocksOfTheSameSessionsAreTheSameLock(t *testing.T) {
	all := sessions(time.Second, time.Second, time.Second)
	one := New(all, "a", acquire.LockConfig{})
	other := New([]*acquire.Node{all[2], all[0], all[1]}, "a", acquire.LockConfig{})
	require.Same(t, one.table, other.table)
	require.Equal(t, one.owned.Name, other.owned.Name)
	require.NotEqual(t, one.owned.Name, New(all, "b", acquire.LockConfig{}).owned.Name)
	require.NotEqual(t, one.owned.Name, New(all[:2], "a", acquire.LockConfig{}).owned.Name)
}

func TestHoldIsCertainForAsLongAsAMajorityIs(t *testing.T) {
	r := New(sessions(time.Hour, time.Hour, time.Hour), "a", acquire.LockConfig{})
	h := newHold(r)
	require.Zero(t, h.left(), "of a hold on no deployment")
	for i := range h.parts {
		l := &acquire.Share{Lease: new(lease.Lease)}
		l.Deadline.Store(r.nodes[i].Node().Clock.Now() + int64(i+1)*int64(10*time.Hour))
		h.parts[i] = l
	}
	certain := func(want time.Duration) {
		t.Helper()
		require.LessOrEqual(t, h.left(), want)
		require.Greater(t, h.left(), want-time.Hour)
	}
	certain(20 * time.Hour)
	h.parts[2] = nil
	certain(10 * time.Hour)
	h.parts[0] = nil
	require.Zero(t, h.left(), "of a hold on a minority")
}
