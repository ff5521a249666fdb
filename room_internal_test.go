package relock

import (
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
)

// newTestSession starts a session on a server of its own.
func newTestSession(t *testing.T, opts ...SessionOption) (*Session, *redistest.Server) {
	t.Helper()
	server := redistest.Start(t)
	s, err := NewSession(ctx0, server.Client(t), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(ctx0) })
	return s, server
}

// Seats were made with the room locked, which locks the hub; messages came with the hub
// locked, and locked the room: a deadlock of the whole session.
func TestSeatsAreMadeWhileMessagesArrive(t *testing.T) {
	t.Parallel()
	s, server := newTestSession(t)
	client := server.Client(t)
	stop := make(chan struct{})
	done := make(chan struct{})
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
		t.Fatal("deadlock")
	}
}
