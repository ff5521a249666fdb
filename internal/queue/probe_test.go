package queue

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// It was the turn of the first of Redisson's queue, which did not come: relock's waiters
// did not probe before their timers, here after minutes.
func TestFirstWaiterProbesWhenTheLockIsLeftToRedisson(t *testing.T) {
	t.Parallel()
	r, server := newSlowRig(t)
	r.start()
	for what, release := range map[string]func(hold *wire.Ref){
		"unlock": r.release,
		"force": func(*wire.Ref) {
			was, err := r.Proto.Force(r.ctx, "a")
			require.NoError(t, err)
			require.True(t, was)
		},
	} {
		redisson := listen(t, server, "redisson_lock__channel:{a}:j:1")
		hold := r.held(wire.Fair)
		got := r.locking()
		r.inQueue()
		do(t, server, "RPUSH", "redisson_lock_queue:{a}", "j:1")
		release(hold)
		select {
		case message := <-redisson:
			require.Equal(t, "0", message, what)
		case <-time.After(enough):
			t.Fatal(what, ": Redisson's waiter was not told")
		}
		r.gotIn(got)
		do(t, server, "DEL", "redisson_lock_queue:{a}", "relock_yield:{a}")
	}
}

// listen subscribes a channel and returns its messages.
func listen(t *testing.T, s *redistest.Server, channel string) <-chan string {
	t.Helper()
	conn, put := s.Client(t).Dedicate()
	t.Cleanup(put)
	messages := make(chan string, 100)
	conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { messages <- m.Message }})
	require.NoError(t, conn.Do(t.Context(), conn.B().Subscribe().Channel(channel).Build()).Error())
	return messages
}

// Redisson's waiter has come, and tells nobody when it leaves: the first of relock's
// probes often as long as it is there.
func TestFirstWaiterProbesOftenAfterATurnOfRedisson(t *testing.T) {
	t.Parallel()
	r, server := newSlowRig(t)
	r.start()
	r.held(wire.Fair)
	got := r.locking()
	id := r.inQueue()
	const redisson = "7b1c5a52-5a0e-4c57-9b55-0d8f8d1a6c11:47"
	do(t, server, "EVAL", `redis.call('del', KEYS[1])
		return redis.call('hset', KEYS[1], ARGV[1], 1)`, "1", "a", redisson)
	do(t, server, "PUBLISH", "relock_session:"+r.Session, "look "+id)
	time.Sleep(100 * time.Millisecond)
	select {
	case <-got:
		t.Fatal("Redisson has the lock")
	default:
	}
	do(t, server, "DEL", "a")
	r.gotIn(got)
}

// A message that comes while the probe is under way is not forgotten either.
func TestProbeOnRequestIsSent(t *testing.T) {
	t.Parallel()
	r, _ := newSlowRig(t)
	r.held(wire.Plain)
	st := r.waiter()
	require.Zero(t, r.dueOf(st))
	r.Heard("look " + st.ref.ID)
	redistest.Eventually(t, enough, "a look while it was in the queue", func() bool { return r.dueOf(st) == 1 })
	due := r.due()
	r.Heard("look " + st.ref.ID)
	r.probe(due)
	require.Equal(t, 1, r.dueOf(st), "while a probe was under way")
	r.Heard("look somebody:1")
	r.Remove(st)
}

// Probes had half the time of what they are apart to be answered: where a round trip took
// longer, none ever counted, and grants seemed older than they were.
func TestProbesCountOverASlowNetwork(t *testing.T) {
	t.Parallel()
	const claim = 1500 * time.Millisecond
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{proxy.Addr()}, ForceSingleClient: true, DisableCache: true,
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	holder := newRig(t, server.Client(t), claim)
	holder.Session = "00000002-0000-8000-8000-000000000000"
	r := newRig(t, client, claim)
	r.start()
	hold := holder.held(wire.Fair)
	got := r.locking()
	id := r.inQueue()
	proxy.Delay(claim / 8) // each way
	probed := func() int64 {
		r.mu.Lock()
		defer r.mu.Unlock()
		st := r.waiters[id]
		require.NotNil(t, st, "the waiter has left")
		return st.probed
	}
	time.Sleep(claim) // what was sent before has been answered
	for range 2 {
		last := probed()
		redistest.Eventually(t, enough, "a probe to count", func() bool { return probed() > last })
	}
	proxy.Delay(0)
	holder.release(hold)
	r.gotIn(got)
}

func TestContenderThatHearsNoMessagesLooksOften(t *testing.T) {
	t.Parallel()
	r, _ := newSlowRig(t)
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
