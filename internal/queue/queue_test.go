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

// Contenders were added with the queue locked, which locks the broker; messages came with the
// broker locked, and locked the queue: a deadlock of the whole session.
func TestContendersAreAddedWhileMessagesArrive(t *testing.T) {
	t.Parallel()
	r, server := newRig(t)
	client := server.Client(t)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				st := r.Add(r.ref(wire.Fair), r.Clock.Now(), time.Minute)
				r.listen(st)
				r.Remove(st)
			}
		}
	}()
	for range 2000 {
		client.Do(r.Ctx, client.B().Publish().Channel("redisson_lock__channel:{a}").Message("0").Build())
	}
	close(stop)
	select {
	case <-done:
	case <-time.After(enough):
		panic("deadlock") // the broker cannot even be stopped
	}
	require.Zero(t, r.Len("a"))
	require.Zero(t, r.Broker.Listeners("redisson_lock__channel:{a}"))
}

// A message may overtake the reply to the request that queues, and the subscription may break
// between the two: then a probe tells.
func TestWhatIsHeardBeforeTheReplyIsNotForgotten(t *testing.T) {
	t.Parallel()
	r, server := newRig(t)
	holder := r.held(wire.Plain)
	asks := func(missed func(hold *wire.Ref)) *Waiter {
		hold := r.ref(wire.Plain)
		sent, ttl := r.queues(&hold)
		missed(&hold)
		redistest.Eventually(t, enough, "the message, or the gap", func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.gap >= sent
		})
		st := r.Add(hold, sent, ttl)
		t.Cleanup(func() { r.Remove(st) })
		require.Equal(t, 1, r.dueOf(st))
		return st
	}
	st := asks(func(*wire.Ref) { r.release(holder) })
	sent := r.Clock.Now()
	r.poll(r.due())
	g, _ := r.Answer(st)
	require.Positive(t, g.Token, "the grant is forgotten")
	require.GreaterOrEqual(t, g.Until, lease.CertainUntil(g.Term, sent), "it is certain from the probe on")
	asks(func(hold *wire.Ref) { r.Heard("look " + hold.ID) })
	asks(func(*wire.Ref) { do(t, server, "CLIENT", "KILL", "TYPE", "pubsub") })
}

// A grant may have been missed while nothing was subscribed, by any of the waiters.
func TestSubscriptionThatBreaksMakesEveryWaiterProbe(t *testing.T) {
	t.Parallel()
	r, server := newRig(t)
	r.held(wire.Plain)
	waiters := []*Waiter{r.waiter(), r.waiter(), r.waiter()}
	r.mu.Lock()
	for _, st := range waiters {
		r.polls.Set(&st.next, lease.Forever)
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
	r, _ := newRig(t)
	r.held(wire.Plain)
	for _, c := range []struct{ claim, lease, want time.Duration }{
		{5 * time.Second, 30 * time.Second, 5 * time.Second},
		{5 * time.Second, 200 * time.Millisecond, 200 * time.Millisecond},
		{200 * time.Millisecond, 30 * time.Second, 200 * time.Millisecond},
	} {
		st := r.waiter()
		st.ref.Length = c.lease
		r.Heard(fmt.Sprintf("granted %s 7168 %d %s", st.ref.ID, c.claim.Milliseconds(), st.ref.Keys.Name))
		g, _ := r.Answer(st)
		require.Equal(t, Grant{wire.Reply{Granted: true, Token: 7168}, -1, c.want, st.polled + int64(c.want-lease.Margin(c.want)), true, false}, g, "%+v", c)
		r.Remove(st)
	}
}

func TestMessageThatIsNoGrantIsIgnored(t *testing.T) {
	t.Parallel()
	r, _ := newRig(t)
	r.held(wire.Plain)
	st := r.waiter()
	id := st.ref.ID
	for _, message := range []string{"", "0", id, "granted", "granted " + id} {
		r.Heard(message)
	}
	for _, rest := range []string{" 5", " 0 5000", " -1 5000", " x 5000", " 5 y", " 5 0", " 5 5001"} {
		r.Heard("granted " + id + rest)
	}
	r.Heard("granted " + id + "0 5 5000") // for somebody who has left
	r.Heard("granted " + id + " 5 5000 {" + st.ref.Keys.Name + "}")
	g, lost := r.Answer(st)
	require.Zero(t, g, "another's grant was taken")
	require.False(t, lost)
	r.Heard("granted " + id + " 5 5000 " + st.ref.Keys.Name)
	r.Heard("granted " + id + " 6 5000 " + st.ref.Keys.Name) // there is no second one
	g, _ = r.Answer(st)
	require.EqualValues(t, 5, g.Token)
	r.Remove(st)
}

// A message that comes while the probe is under way is not forgotten either.
func TestProbeOnRequestIsSent(t *testing.T) {
	t.Parallel()
	r, _ := newRig(t)
	r.held(wire.Plain)
	st := r.waiter()
	require.Zero(t, r.dueOf(st))
	r.Heard("look " + st.ref.ID)
	time.Sleep(20 * time.Millisecond)
	require.Equal(t, 1, r.dueOf(st), "while it was in the queue")
	due := r.due()
	r.Heard("look " + st.ref.ID)
	r.poll(due)
	require.Equal(t, 1, r.dueOf(st), "while a probe was under way")
	r.Heard("look somebody:1")
	r.Remove(st)
}

func TestContenderThatHearsNoMessagesLooksOften(t *testing.T) {
	t.Parallel()
	r, _ := newRig(t)
	w := &Waiter{ref: r.ref(wire.Plain)}
	looks := func(hears bool) time.Duration {
		r.mu.Lock()
		defer r.mu.Unlock()
		now := r.Clock.Now()
		r.scheduleLocked(w, now, 0, hears)
		return time.Duration(w.next.At - now)
	}
	require.Less(t, looks(false), 2*deaf)
	require.Greater(t, looks(true), 8*deaf)
}
