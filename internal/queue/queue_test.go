package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// Waiters were added with the queue locked, which locks the broker; messages came with
// the broker locked, and locked the queue: a deadlock of the whole session.
func TestWaitersAreAddedWhileMessagesArrive(t *testing.T) {
	t.Parallel()
	r, server := newSlowRig(t)
	client := server.Client(t)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				r.Remove(r.Add(r.ref(wire.Fair)))
			}
		}
	}()
	for range 2000 {
		client.Do(r.ctx, client.B().Publish().Channel("redisson_lock__channel:{a}").Message("0").Build())
	}
	close(stop)
	select {
	case <-done:
	case <-time.After(enough):
		panic("deadlock") // the broker cannot even be stopped
	}
	r.opening.Lock()
	defer r.opening.Unlock()
	require.Empty(t, r.subs)
	require.Empty(t, r.waiters)
}

// The lock was released by another kind of lock while nobody could be made to probe. The
// signal was forgotten, and all waited for their timers.
func TestReleaseIsNotForgotten(t *testing.T) {
	t.Parallel()
	r, _ := newSlowRig(t)
	r.held(wire.Plain)

	st := r.waiter(false)
	r.lockFreed(st.subs) // its place was taken before the release, and the reply comes after the signal
	r.Enqueued(st, time.Minute)
	require.Equal(t, 1, r.dueOf(st), "a signal before the reply of the enter is forgotten")

	require.Len(t, r.due(), 1)
	r.lockFreed(st.subs) // the probe may have been executed before the release
	r.mu.Lock()
	st.prober = false
	r.scheduleLocked(st, r.after(st, st.probed, time.Minute))
	r.mu.Unlock()
	require.Equal(t, 1, r.dueOf(st), "a signal during a probe is forgotten")

	other := r.waiter(true)
	r.lockFreed(st.subs)
	require.NotZero(t, r.dueOf(st, other), "nobody probes")
	first := st
	if other.prober {
		first, other = other, st
	}
	r.Remove(first) // gives up before it has probed
	require.Equal(t, 1, r.dueOf(other), "the signal has left with the one who was to probe")

	r.due()
	r.Remove(other) // gives up during its probe; somebody comes later
	last := r.waiter(true)
	r.lockFreed(last.subs)
	due := r.due()
	r.Proto.ReleaseAll(r.ctx, []*wire.Ref{&due[0].ref}) // its place is gone, so it cannot probe for others
	next := r.waiter(true)
	r.probe(due)
	require.True(t, last.lost)
	require.Equal(t, 1, r.dueOf(next), "the signal has gone with the place of the one who was to probe")
	r.Remove(last)
	r.Remove(next)
}

// Whoever waits for the subscription, and whoever was in the queue when it broke, probes
// as soon as it is there.
func TestEveryWaiterProbesWhenItsSubscriptionIsConfirmed(t *testing.T) {
	t.Parallel()
	r, server := newSlowRig(t)
	r.start()
	hold := r.held(wire.Plain)
	const n = 10
	var got []<-chan error
	for range n {
		got = append(got, r.locking())
	}
	waiters := func() int {
		in, err := r.Proto.Inspect(r.ctx, "a")
		require.NoError(t, err)
		return in.Waiters
	}
	redistest.Eventually(t, enough, "all to queue", func() bool { return waiters() == n })
	do(t, server, "DEL", "relock_queue:{a}")
	do(t, server, "CLIENT", "KILL", "TYPE", "pubsub")
	redistest.Eventually(t, enough, "all to queue again", func() bool { return waiters() == n })
	r.release(hold)
	for _, c := range got {
		r.gotIn(c)
	}
}

// A grant may have been missed while nothing was subscribed, by any of the waiters.
func TestSubscriptionThatBreaksMakesEveryWaiterProbe(t *testing.T) {
	t.Parallel()
	r, server := newSlowRig(t)
	r.held(wire.Plain)
	waiters := []*Waiter{r.waiter(true), r.waiter(true), r.waiter(true)}
	r.mu.Lock()
	for _, st := range waiters { // one was to probe when the first was subscribed
		st.next, st.prober = lease.Forever, false
	}
	r.mu.Unlock()
	do(t, server, "CLIENT", "KILL", "TYPE", "pubsub")
	redistest.Eventually(t, enough, "all to probe", func() bool { return r.dueOf(waiters...) == len(waiters) })
	for _, st := range waiters {
		r.Remove(st)
	}
}

// A claim of 5 s may have been cut by a probe or a renewal of the waiter, whose lease is
// shorter. It was believed to be certain for 5 s.
func TestGrantIsCertainNoLongerThanItsLease(t *testing.T) {
	t.Parallel()
	r, _ := newSlowRig(t)
	r.held(wire.Plain)
	for _, c := range []struct{ claim, lease, want time.Duration }{
		{5 * time.Second, 30 * time.Second, 5 * time.Second},
		{5 * time.Second, 200 * time.Millisecond, 200 * time.Millisecond},
		{200 * time.Millisecond, 30 * time.Second, 200 * time.Millisecond},
	} {
		st := r.waiter(true)
		st.ref.Length = c.lease
		require.True(t, r.Granted(fmt.Sprintf("%s 7168 %d", st.ref.ID, c.claim.Milliseconds())))
		token, until, _ := r.Answer(st)
		require.EqualValues(t, 7168, token)
		require.Equal(t, st.probed+int64(c.want-lease.Margin(c.want)), until, "%+v", c)
		r.Remove(st)
	}
}

func TestMessageThatIsNoGrantIsIgnored(t *testing.T) {
	t.Parallel()
	r, _ := newSlowRig(t)
	r.held(wire.Plain)
	st := r.waiter(true)
	id := st.ref.ID
	for _, message := range []string{"", "0", id, id + " 5", id + " 0 5000", id + " -1 5000", id + " x 5000", id + " 5 y", " 5 5000"} {
		r.Granted(message)
		token, _, lost := r.Answer(st)
		require.Zero(t, token, "%q was taken for a grant", message)
		require.False(t, lost, "%q", message)
	}
	require.True(t, r.Granted(id+"0 5 5000"), "a grant for somebody who has left is one")
	require.True(t, r.Granted("somebody:1 5 5000"), "a grant for somebody who has left is one")
	token, _, _ := r.Answer(st)
	require.Zero(t, token, "another's grant was taken")
	r.Granted(id + " 5 5000")
	r.Granted(id + " 6 5000") // there is no second one
	token, _, _ = r.Answer(st)
	require.EqualValues(t, 5, token)
	r.Remove(st)
}
