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

// Waiters were added with the queue locked, which locks the broker; messages came with the broker locked, and locked the
// queue: a deadlock of the whole session. Where pub/sub is sharded waiters subscribe.
func TestWaitersAreAddedWhileMessagesArrive(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ShardedPubSub)
	r, server := newRigWith(t, wire.Sharded)
	client := server.Client(t)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				w := r.Add(r.ref(wire.Fair), r.Clock.Now(), wire.Reply{Wait: time.Minute})
				r.Remove(w)
			}
		}
	}()
	keys := wire.NewKeys(wire.Fair, "a")
	for range 2000 {
		client.Do(r.Ctx, client.B().Spublish().Channel(keys.Grants(r.Session)).Message("0").Build())
		client.Do(r.Ctx, client.B().Publish().Channel(wire.PrefixSession+r.Session).Message("poll "+r.Session+":1").Build())
	}
	close(stop)
	select {
	case <-done:
	case <-time.After(enough):
		panic("deadlock") // the broker cannot even be stopped
	}
	require.Zero(t, r.Len("a"))
}

// A message may overtake the reply to the request that queues, and the subscription may break between the two: then a
// poll tells.
func TestMessageThatOvertakesTheReplyIsNotForgotten(t *testing.T) {
	t.Parallel()
	r, server := newRig(t)
	holder := r.held(wire.Plain)
	asks := func(missed func(hold *wire.Ref)) *Waiter {
		hold := r.ref(wire.Plain)
		sent, reply := r.queues(&hold)
		missed(&hold)
		redistest.Eventually(t, enough, "the message, or the gap", func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.gap >= sent
		})
		w := r.Add(hold, sent, reply)
		t.Cleanup(func() { r.Remove(w) })
		require.Equal(t, 1, r.dueOf(w))
		return w
	}
	w := asks(func(*wire.Ref) { r.release(holder) })
	sent := r.Clock.Now()
	r.poll(r.due())
	g, _ := r.Answer(w)
	require.Positive(t, g.Token, "the grant is forgotten")
	require.GreaterOrEqual(t, g.Until, lease.CertainUntil(g.Term, sent), "it is valid from the poll on")
	asks(func(hold *wire.Ref) { r.Heard("poll " + wire.Hint(hold.ID)) })
	asks(func(*wire.Ref) { do(t, server, "CLIENT", "KILL", "TYPE", "pubsub") })
}

// A grant may have been missed while nothing was subscribed, by any of the waiters.
func TestSubscriptionThatBreaksMakesEveryWaiterPoll(t *testing.T) {
	t.Parallel()
	r, server := newRig(t)
	r.held(wire.Plain)
	waiters := []*Waiter{r.waiter(), r.waiter(), r.waiter()}
	r.mu.Lock()
	for _, w := range waiters {
		r.polls.Set(&w.next, lease.Forever)
	}
	r.mu.Unlock()
	do(t, server, "CLIENT", "KILL", "TYPE", "pubsub")
	redistest.Eventually(t, enough, "all to poll", func() bool { return r.dueOf(waiters...) == len(waiters) })
	for _, w := range waiters {
		r.Remove(w)
	}
}

// A grant of 5 s may have been cut by a poll or a renewal of the waiter, whose lease is shorter. It was believed to be
// valid for 5 s. A plus sign says that others wait.
func TestGrantIsValidNoLongerThanItsLease(t *testing.T) {
	t.Parallel()
	r, _ := newRig(t)
	r.held(wire.Plain)
	for _, c := range []struct {
		grant, lease, want time.Duration
		behind             string
	}{
		{5 * time.Second, 30 * time.Second, 5 * time.Second, ""},
		{5 * time.Second, 200 * time.Millisecond, 200 * time.Millisecond, "+"},
		{200 * time.Millisecond, 30 * time.Second, 200 * time.Millisecond, "+"},
	} {
		w := r.waiter()
		w.ref.Length = c.lease
		r.Heard(fmt.Sprintf("granted %s 7168 %s%d %s", w.ref.ID, c.behind, c.grant.Milliseconds(), w.ref.Keys.Name))
		g, _ := r.Answer(w)
		require.Equal(t, Grant{
			Reply: wire.Reply{Granted: true, Token: 7168, Wanted: c.behind != ""}, Slot: -1, Term: c.want,
			Until: w.polled + int64(c.want-lease.Margin(c.want)), Unconfirmed: true,
		}, g, "%+v", c)
		r.Remove(w)
	}
}

func TestMessageThatIsNoGrantIsIgnored(t *testing.T) {
	t.Parallel()
	r, _ := newRig(t)
	r.held(wire.Plain)
	w := r.waiter()
	id := w.ref.ID
	for _, message := range []string{"", "0", id, "granted", "granted " + id} {
		r.Heard(message)
	}
	for _, rest := range []string{" 5", " 0 5000", " -1 5000", " x 5000", " 5 y", " 5 0", " 5 5001", " 5 ++5000", " 5/0 5000 a"} {
		r.Heard("granted " + id + rest)
	}
	require.False(t, r.Heard("granted "+id+"0 5 5000 a"), "somebody waits who has left")
	require.True(t, r.Heard("granted "+id+" 5 5000 {"+w.ref.Keys.Name+"}"))
	g, lost := r.Answer(w)
	require.Zero(t, g, "another's grant was taken")
	require.False(t, lost)
	r.Heard("granted " + id + " 5 5000 " + w.ref.Keys.Name)
	r.Heard("granted " + id + " 6 5000 " + w.ref.Keys.Name) // there is no second one
	g, _ = r.Answer(w)
	require.EqualValues(t, 5, g.Token)
	r.Remove(w)
}

// One message tells several waiters to poll. One that comes while the poll is under way is not forgotten either.
func TestPollOnRequestIsSent(t *testing.T) {
	t.Parallel()
	r, _ := newRig(t)
	r.held(wire.Plain)
	w, other := r.waiter(), r.waiter()
	require.Zero(t, r.dueOf(w, other))
	r.Heard("poll 7 " + wire.Hint(w.ref.ID) + " " + wire.Hint(other.ref.ID))
	time.Sleep(20 * time.Millisecond)
	require.Equal(t, 2, r.dueOf(w, other), "while they were in the queue")
	due := r.due()
	r.Heard("poll " + wire.Hint(w.ref.ID))
	r.poll(due)
	require.Equal(t, 1, r.dueOf(w), "while a poll was under way")
	r.Remove(w)
	r.Remove(other)
}

// A poll tells the score of an entry, and when it is gone: then the call queues again with that.
func TestPollTellsTheScoreAndWhenTheEntryIsGone(t *testing.T) {
	t.Parallel()
	r, server := newRig(t)
	r.held(wire.Plain)
	w := r.waiter()
	_, score, err := r.Polled(w)
	require.NoError(t, err)
	require.Positive(t, score)
	poll := func() (lost bool) {
		r.Heard("poll " + wire.Hint(w.ref.ID))
		redistest.Eventually(t, enough, "the poll", func() bool { return r.dueOf(w) == 1 })
		r.poll(r.due())
		_, lost = r.Answer(w)
		return lost
	}
	require.False(t, poll())
	do(t, server, "ZREM", wire.QueueOf("a"), w.ref.ID)
	require.True(t, poll())
	_, again, _ := r.Polled(w)
	require.Equal(t, score, again)
	r.Remove(w)
}

// The first waiter polls often at first while Redisson has the lock, or its turn, then as often as others.
func TestFirstWaiterPollsOftenBesideRedisson(t *testing.T) {
	t.Parallel()
	r, _ := newRig(t)
	w := &Waiter{ref: r.ref(wire.Plain)}
	after := func(theirs bool, since time.Duration) time.Duration {
		r.mu.Lock()
		defer r.mu.Unlock()
		now := r.Clock.Now()
		if w.theirs != 0 {
			w.theirs = now - int64(since)
		}
		r.scheduleLocked(w, now, wire.Reply{Wait: time.Minute, Theirs: theirs})
		return time.Duration(w.next.At - now)
	}
	require.Greater(t, after(false, 0), time.Second)
	require.Less(t, after(true, 0), 50*time.Millisecond)
	require.InDelta(t, time.Second/10, after(true, 3200*time.Millisecond), float64(50*time.Millisecond))
	require.Greater(t, after(true, time.Hour), time.Second)
	require.Equal(t, 1, r.theirs)
	require.Greater(t, after(false, 0), time.Second)
	require.Zero(t, r.theirs)
}
