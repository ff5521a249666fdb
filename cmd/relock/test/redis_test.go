package test

import (
	"context"
	"fmt"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
)

// session starts a session of the library on a server.
func session(t testing.TB, s *redistest.Server) *relock.Session {
	t.Helper()
	session, err := relock.NewSession(context.Background(), s.Client(t))
	ok(t, err)
	t.Cleanup(func() {
		if err := session.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return session
}

// hold has somebody else hold a lock until the function that it returns is called.
func hold(t testing.TB, l relock.Locker) (release func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	ok(t, l.Lock(ctx))
	return func() {
		t.Helper()
		ok(t, l.Unlock(context.Background()))
	}
}

// admin sends a command to a server.
func admin(t testing.TB, s *redistest.Server, args ...string) any {
	t.Helper()
	reply, err := s.Do(args...)
	ok(t, err)
	return reply
}

// locked waits until a lock is held, or not.
func locked(t testing.TB, s *redistest.Server, name string, want bool) {
	t.Helper()
	redistest.Eventually(t, soon, fmt.Sprintf("locked %s: %v", name, want), func() bool {
		return (admin(t, s, "EXISTS", name) == int64(1)) == want
	})
}

// forced opens a lock.
func forced(t testing.TB, s *relock.Session, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	was, err := s.ForceUnlock(ctx, name)
	if err != nil || !was {
		t.Fatalf("forced: %v, %v", was, err)
	}
}

// ok stops the test if there is an error.
func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
