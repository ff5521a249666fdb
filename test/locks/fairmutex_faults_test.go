package locks_test

import (
	"slices"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// everybody checks that every waiter had one turn, in whatever order.
func (q *line) everybody(n int) {
	q.t.Helper()
	who := q.turns(n)
	slices.Sort(who)
	require.Equal(q.t, span(n, anyOf), who)
	q.done(span(n, anyOf)...)
}

// Whatever happens while they wait, everybody gets in, one at a time.
func TestFairMutexWaitersGetInAfterAFault(t *testing.T) {
	const waiters = 20
	must := func(q *line, args ...string) {
		_, err := q.server.Do(args...)
		require.NoError(q.t, err)
	}
	faults := map[string]struct {
		args  []string // of the server
		lease time.Duration
		do    func(q *line)
		order bool // is kept
	}{
		"scripts are forgotten": {nil, 30 * time.Second, func(q *line) { must(q, "SCRIPT", "FLUSH") }, true},
		"subscriptions are cut": {nil, 30 * time.Second, func(q *line) { must(q, "CLIENT", "KILL", "TYPE", "pubsub") }, false},
		"all connections are cut": {nil, 30 * time.Second, func(q *line) {
			must(q, "CLIENT", "KILL", "TYPE", "pubsub")
			must(q, "CLIENT", "KILL", "TYPE", "normal")
		}, false},
		"the queue is lost":        {nil, 30 * time.Second, func(q *line) { must(q, "DEL", "relock_queue:{lock}") }, false},
		"Redis pauses its clients": {nil, 30 * time.Second, func(q *line) { must(q, "CLIENT", "PAUSE", "300") }, true},
		"Redis is frozen for less than a lease": {nil, 2 * time.Second, func(q *line) {
			require.NoError(q.t, q.server.Freeze())
			time.Sleep(300 * time.Millisecond)
			require.NoError(q.t, q.server.Thaw())
		}, true},
		"Redis is frozen for longer than a lease": {nil, 500 * time.Millisecond, func(q *line) {
			require.NoError(q.t, q.server.Freeze())
			kit.Receive(q.t, q.first.Done(), "the holder to be told")
			time.Sleep(500 * time.Millisecond)
			require.NoError(q.t, q.server.Thaw())
		}, false},
		"Redis restarts with its data": {[]string{"--appendonly", "yes", "--appendfsync", "always"}, 30 * time.Second, func(q *line) {
			require.NoError(q.t, q.server.Restart())
		}, false},
		"Redis restarts without its data": {nil, 30 * time.Second, func(q *line) {
			require.NoError(q.t, q.server.Restart())
		}, false},
	}
	for what, fault := range faults {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			q := newLine(t, 3, fault.lease, fault.args...)
			kit.Lock(t, kit.Background, q.first)
			for n := range waiters {
				q.join(q.all[(n*5)%3], n)
			}
			fault.do(q)
			_ = q.first.Unlock(kit.Background) // may have been lost
			if fault.order {
				require.Equal(t, span(waiters, anyOf), q.turns(waiters))
			}
			q.everybody(waiters)
		})
	}
}

// Faults follow each other while the queue moves.
func TestFairMutexWaitersGetInWhateverHappensMeanwhile(t *testing.T) {
	t.Parallel()
	const waiters = 60
	q := newLine(t, 3, 30*time.Second)
	for range rounds(t, 2) {
		kit.Lock(t, kit.Background, q.first)
		for n := range waiters {
			q.join(q.all[(n*5)%3], n)
		}
		kit.Unlock(t, kit.Background, q.first)
		for range 10 {
			for _, args := range [][]string{{"SCRIPT", "FLUSH"}, {"CLIENT", "KILL", "TYPE", "pubsub"}} {
				_, err := q.server.Do(args...)
				require.NoError(t, err)
				time.Sleep(2 * time.Millisecond)
			}
		}
		q.everybody(waiters)
		q.clear()
	}
}

// Nobody unlocks: the holder's process is dead.
func TestFairMutexOfADeadHolderIsFreeWithinALease(t *testing.T) {
	t.Parallel()
	const lease = time.Second
	q := newLine(t, 1, lease)
	holder := q.process()
	q.of[0] = holder
	q.tell(0, "hold")
	q.said(0, "got")
	for n := range 3 {
		q.join(q.all[0], n+1)
	}
	holder.Kill()
	start := time.Now()
	redistest.Eventually(t, lease+kit.Soon, "the waiters to get in", func() bool { return len(q.turns(1)) == 4 })
	t.Log("within", time.Since(start))
	require.Less(t, time.Since(start), lease+kit.Quickly)
	require.Equal(t, []int{0, 1, 2, 3}, q.turns(4))
	q.done(1, 2, 3)
}
