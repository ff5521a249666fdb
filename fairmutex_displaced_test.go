package relock_test

import (
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// lossObserver passes on the losses that a session reports.
type lossObserver struct {
	relock.NopObserver
	lost chan relock.LostEvent
}

func (o lossObserver) Lost(e relock.LostEvent) { o.lost <- e }

// The key of a FairMutex is deleted, and another goroutine of the session gets the
// lock before a renewal has told. The hold before was forgotten then: Done never
// closed, Err was nil for good, and the observer was not told.
func TestFairMutexGivenToAnotherGoroutineIsLostForTheOneBefore(t *testing.T) {
	t.Parallel()
	at := redistest.Start(t)
	client := newClient(t, at)
	seen := lossObserver{lost: make(chan relock.LostEvent, 10)}
	s := newSession(t, at, relock.WithObserver(seen)) // of 30 s: no renewal tells first
	m, n := s.FairMutex("a"), s.FairMutex("a")
	lock(t, background, m)
	done := m.Done()
	got := async(func() error { return n.Lock(background) })
	redistest.Eventually(t, soon, "the second to queue", func() bool {
		st, err := s.Inspect(background, "a")
		return err == nil && st.Waiters == 1
	})
	require.NoError(t, client.Do(background, client.B().Del().Key("a").Build()).Error())
	require.NoError(t, receive(t, got, "the second at its next look"))

	receive(t, done, "Done of the first")
	require.ErrorIs(t, m.Err(), relock.ErrLost)
	require.Equal(t, "a", receive(t, seen.lost, "the loss").Name)
	require.ErrorIs(t, m.Unlock(background), relock.ErrLost)
	require.NoError(t, n.Err(), "the late Unlock ended another's hold")
	unlock(t, background, n)
	require.Empty(t, keys(t, client))
}
