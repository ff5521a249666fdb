package relock

import (
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock/internal/redistest"
)

// waiterOf queues for a FairMutex behind the holder of its lock, and returns its hold id
// and where its end is told.
func waiterOf(t *testing.T, s *Session) (id string, got <-chan error) {
	t.Helper()
	c := make(chan error, 1)
	go func() {
		l := s.FairMutex("a")
		err := l.Lock(ctx0)
		if err == nil {
			err = l.Unlock(ctx0)
		}
		c <- err
	}()
	redistest.Eventually(t, 20*time.Second, "the waiter to queue", func() bool {
		s.room.mu.Lock()
		defer s.room.mu.Unlock()
		for of, st := range s.room.seats {
			if id = of; st.index >= 0 && st.next > s.clock.now() {
				return true
			}
		}
		return false
	})
	return id, c
}

func gotIn(t *testing.T, c <-chan error) {
	t.Helper()
	select {
	case err := <-c:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the waiter was not woken")
	}
}

// It was the turn of the first of Redisson's queue, which did not come: relock's waiters
// did not look before their timers, here after minutes.
func TestFirstWaiterLooksWhenTheLockIsLeftToRedisson(t *testing.T) {
	t.Parallel()
	s, server := newSlowRoom(t)
	r := rigOn(t, server.Client(t), server.Addr())
	next := r.listen("redisson_lock__channel:{a}:j:1")
	for what, release := range map[string]func(m *FairMutex) error{
		"unlock": func(m *FairMutex) error { return m.Unlock(ctx0) },
		"force":  func(*FairMutex) error { _, err := s.ForceUnlock(ctx0, "a"); return err },
	} {
		m := s.FairMutex("a")
		heldBy(t, s, m)
		_, got := waiterOf(t, s)
		r.must("RPUSH", "redisson_lock_queue:{a}", "j:1")
		if err := release(m); err != nil {
			t.Fatal(what, err)
		}
		if message := next(); message != "redisson_lock__channel:{a}:j:1 0" {
			t.Fatal(message)
		}
		gotIn(t, got)
		r.must("DEL", "redisson_lock_queue:{a}")
	}
}

// Redisson's waiter has come, and tells nobody when it leaves: the first of relock's
// looks often as long as it is there.
func TestFirstWaiterLooksOftenAfterATurnOfRedisson(t *testing.T) {
	t.Parallel()
	s, server := newSlowRoom(t)
	r := rigOn(t, server.Client(t), server.Addr())
	m := s.FairMutex("a")
	heldBy(t, s, m)
	id, got := waiterOf(t, s)
	const redisson = "7b1c5a52-5a0e-4c57-9b55-0d8f8d1a6c11:47"
	r.must("EVAL", `redis.call('del', KEYS[1])
		return redis.call('hset', KEYS[1], ARGV[1], 1)`, "1", "a", redisson)
	r.must("PUBLISH", "relock_grant:{a}:"+s.id, id+" look")
	time.Sleep(100 * time.Millisecond)
	select {
	case <-got:
		t.Fatal("Redisson has the lock")
	default:
	}
	r.must("DEL", "a")
	gotIn(t, got)
	if err := m.Unlock(ctx0); err == nil {
		t.Fatal("its hold was gone")
	}
}

// A message that comes while the look is under way, or before the seat is in the queue,
// is not forgotten either.
func TestLookThatIsAskedForIsMade(t *testing.T) {
	t.Parallel()
	s, _ := newSlowRoom(t)
	heldBy(t, s, s.Mutex("a"))
	r := apart(s)
	st := seatedAt(t, r, "a", false)
	r.granted(st.lease.id + " look")
	r.queued(st, time.Minute)
	if dueOf(r, st) != 1 {
		t.Fatal("not before it was in the queue")
	}
	r.ask(r.due())
	if dueOf(r, st) != 0 {
		t.Fatal("it has looked")
	}
	r.granted(st.lease.id + " look")
	if dueOf(r, st) != 1 {
		t.Fatal("not while it was in the queue")
	}
	due := r.due()
	r.granted(st.lease.id + " look")
	r.ask(due)
	if dueOf(r, st) != 1 {
		t.Fatal("not while a look was under way")
	}
	r.granted("somebody:1 look")
	r.rise(st)
}

// Looks had half the time of what they are apart to be answered: where a round trip
// took longer, none ever counted, and grants seemed older than they were.
func TestLooksCountOverASlowNetwork(t *testing.T) {
	t.Parallel()
	const claim = 1500 * time.Millisecond
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	holder, err := NewSession(ctx0, server.Client(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = holder.Close(ctx0) })
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{proxy.Addr()}, ForceSingleClient: true, DisableCache: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	s, err := NewSession(ctx0, client, WithWatchdog(claim))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(ctx0) })
	m := holder.FairMutex("a")
	heldBy(t, holder, m)
	id, got := waiterOf(t, s)
	proxy.Delay(claim / 8) // each way
	looked := func() int64 {
		s.room.mu.Lock()
		defer s.room.mu.Unlock()
		if st := s.room.seats[id]; st != nil {
			return st.looked
		}
		t.Fatal("the waiter has left its seat")
		return 0
	}
	time.Sleep(claim) // what was sent before has been answered
	for range 2 {
		last := looked()
		redistest.Eventually(t, 20*time.Second, "a look to count", func() bool { return looked() > last })
	}
	proxy.Delay(0)
	if err := m.Unlock(ctx0); err != nil {
		t.Fatal(err)
	}
	gotIn(t, got)
}
