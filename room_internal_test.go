package relock

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
)

// newSlowRoom starts a session whose waiters look at the lock once in many seconds if
// they are not told to: what comes sooner is by a signal.
func newSlowRoom(t *testing.T) (*Session, *redistest.Server) {
	t.Helper()
	server := redistest.Start(t)
	s, err := NewSession(ctx0, server.Client(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(ctx0) })
	s.proto.claim = 10 * time.Minute // nothing sits there yet
	return s, server
}

// apart returns a room of its own, whose looks the test makes by hand.
func apart(s *Session) *room { return newRoom(s) }

// seatedAt makes a seat for a waiter that is in the queue, if it is to be.
func seatedAt(t *testing.T, r *room, name string, queue bool) *seat {
	t.Helper()
	b := r.s.lockBase(fair, name, nil)
	l := b.newLease(fair)
	st := r.sit(l)
	redistest.Eventually(t, 10*time.Second, "the subscription", st.hears)
	r.enters(st)
	token, ttl, err := r.s.proto.enter(ctx0, l, b.ms, true, &r.s.cfg)
	if err != nil || token > 0 {
		t.Fatalf("enter = %d, %v", token, err)
	}
	if queue {
		r.mu.Lock()
		st.again = false // its subscription has just been confirmed: it was to look
		r.queueLocked(st, r.after(st.looked, ttl))
		r.mu.Unlock()
	}
	return st
}

// isDue reports whether a seat is to be looked at now.
func (r *room) isDue(st *seat) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return st.index >= 0 && st.next <= r.s.clock.now()
}

func dueOf(r *room, sts ...*seat) (n int) {
	for _, st := range sts {
		if r.isDue(st) {
			n++
		}
	}
	return n
}

// held takes a lock for the test.
func heldBy(t *testing.T, s *Session, l Locker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx0, 20*time.Second)
	defer cancel()
	if err := l.Lock(ctx); err != nil {
		t.Fatal(err)
	}
}

// Seats were made with the room locked, which locks the hub; messages came with the hub
// locked, and locked the room: a deadlock of the whole session.
func TestSeatsAreMadeWhileMessagesArrive(t *testing.T) {
	t.Parallel()
	s, server := newSlowRoom(t)
	client := server.Client(t)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		b := s.lockBase(fair, "a", nil)
		for {
			select {
			case <-stop:
				return
			default:
				s.room.rise(s.room.sit(b.newLease(fair)))
			}
		}
	}()
	for range 2000 {
		client.Do(ctx0, client.B().Publish().Channel("redisson_lock__channel:{a}").Message("0").Build())
	}
	close(stop)
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		panic("deadlock") // the session cannot even be closed
	}
	s.room.opening.Lock()
	defer s.room.opening.Unlock()
	if len(s.room.doors)+len(s.room.seats) > 0 {
		t.Fatal("seats or doors are left")
	}
}

// The lock was released by another kind of lock while nobody could be made to look. The
// signal was forgotten, and all waited for their timers.
func TestReleaseIsNotForgotten(t *testing.T) {
	t.Parallel()
	s, _ := newSlowRoom(t)
	m := s.Mutex("a")
	heldBy(t, s, m)
	r := apart(s)

	st := seatedAt(t, r, "a", false)
	r.freed(st.door) // its place was taken before the release, and the reply comes after the signal
	r.queued(st, time.Minute)
	if dueOf(r, st) != 1 {
		t.Fatal("a signal before the reply of the enter is forgotten")
	}

	if due := r.due(); len(due) != 1 {
		t.Fatal("not due")
	}
	r.freed(st.door) // the look may have been executed before the release
	r.mu.Lock()
	st.scout = false
	r.queueLocked(st, r.after(st.looked, time.Minute))
	r.mu.Unlock()
	if dueOf(r, st) != 1 {
		t.Fatal("a signal during a look is forgotten")
	}

	other := seatedAt(t, r, "a", true)
	r.freed(st.door)
	if n := dueOf(r, st, other); n == 0 {
		t.Fatal("nobody looks")
	}
	first := st
	if other.scout {
		first, other = other, st
	}
	r.rise(first) // gives up before it has looked
	if dueOf(r, other) != 1 {
		t.Fatal("the signal has left with the one who was to look")
	}

	r.due()
	r.rise(other) // gives up during its look; somebody comes later
	last := seatedAt(t, r, "a", true)
	r.freed(last.door)
	due := r.due()
	r.s.proto.releaseAll(ctx0, []*lease{due[0].lease}) // its place is gone, so it cannot look for others
	next := seatedAt(t, r, "a", true)
	r.ask(due)
	if !last.lost || dueOf(r, next) != 1 {
		t.Fatal("the signal has gone with the place of the one who was to look")
	}
	r.rise(last)
	r.rise(next)
}

// Whoever waits for the subscription, and whoever was in the queue when it broke, looks
// as soon as it is there.
func TestEveryWaiterLooksWhenItsSubscriptionIsConfirmed(t *testing.T) {
	t.Parallel()
	s, server := newSlowRoom(t)
	m := s.Mutex("a")
	heldBy(t, s, m)
	const n = 10
	got := make(chan error, n)
	for range n {
		go func() {
			l := s.FairMutex("a")
			err := l.Lock(ctx0)
			if err == nil {
				err = l.Unlock(ctx0)
			}
			got <- err
		}()
	}
	waiters := func() int {
		in, err := s.proto.inspect(ctx0, "a")
		if err != nil {
			t.Fatal(err)
		}
		return in.waiters
	}
	redistest.Eventually(t, 10*time.Second, "all to queue", func() bool { return waiters() == n })
	if _, err := server.Do("DEL", "relock_queue:{a}"); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Do("CLIENT", "KILL", "TYPE", "pubsub"); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, 10*time.Second, "all to queue again", func() bool { return waiters() == n })
	if err := m.Unlock(ctx0); err != nil {
		t.Fatal(err)
	}
	for range n {
		select {
		case err := <-got:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("a waiter was not woken")
		}
	}
}

// A claim of 5 s may have been cut by a look or a renewal of the waiter, whose lease is
// shorter. It was believed to be certain for 5 s.
func TestGrantIsCertainNoLongerThanItsLease(t *testing.T) {
	t.Parallel()
	s, _ := newSlowRoom(t)
	heldBy(t, s, s.Mutex("a"))
	r := apart(s)
	for _, c := range []struct{ claim, lease, want time.Duration }{
		{5 * time.Second, 30 * time.Second, 5 * time.Second},
		{5 * time.Second, 200 * time.Millisecond, 200 * time.Millisecond},
		{200 * time.Millisecond, 30 * time.Second, 200 * time.Millisecond},
	} {
		st := seatedAt(t, r, "a", true)
		st.lease.length = c.lease
		if !r.granted(fmt.Sprintf("%s 7168 %d", st.lease.id, c.claim.Milliseconds())) {
			t.Fatal("not understood")
		}
		token, until, _ := r.answer(st)
		if token != 7168 || until != st.looked+int64(c.want-margin(c.want)) {
			t.Fatalf("%+v: token %d, certain for %v after the look", c, token, time.Duration(until-st.looked))
		}
		r.rise(st)
	}
}

func TestGrantThatIsNoneIsIgnored(t *testing.T) {
	t.Parallel()
	s, _ := newSlowRoom(t)
	heldBy(t, s, s.Mutex("a"))
	r := apart(s)
	st := seatedAt(t, r, "a", true)
	id := st.lease.id
	for _, message := range []string{"", "0", id, id + " 5", id + " 0 5000", id + " -1 5000", id + " x 5000", id + " 5 y", " 5 5000"} {
		r.granted(message)
		if token, _, lost := r.answer(st); token != 0 || lost {
			t.Fatalf("%q was taken for a grant", message)
		}
	}
	if !r.granted(id+"0 5 5000") || !r.granted("somebody:1 5 5000") {
		t.Fatal("a grant for somebody who has left is not one")
	}
	if token, _, _ := r.answer(st); token != 0 {
		t.Fatal("another's grant was taken")
	}
	r.granted(id + " 5 5000")
	r.granted(id + " 6 5000") // there is no second one
	if token, _, _ := r.answer(st); token != 5 {
		t.Fatal("not granted")
	}
	r.rise(st)
}
