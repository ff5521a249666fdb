package locks_test

import (
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
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
	client := kit.NewClient(t, at)
	seen := lossObserver{lost: make(chan relock.LostEvent, 10)}
	s := kit.NewSession(t, at, relock.WithObserver(seen)) // of 30 s: no renewal tells first
	m, n := s.FairMutex("a"), s.FairMutex("a")
	kit.Lock(t, kit.Background, m)
	done := m.Done()
	got := kit.Async(func() error { return n.Lock(kit.Background) })
	redistest.Eventually(t, kit.Soon, "the second to queue", func() bool {
		st, err := s.Inspect(kit.Background, "a")
		return err == nil && st.Waiters == 1
	})
	require.NoError(t, client.Do(kit.Background, client.B().Del().Key("a").Build()).Error())
	require.NoError(t, kit.Receive(t, got, "the second at its next look"))

	kit.Receive(t, done, "Done of the first")
	require.ErrorIs(t, m.Err(), relock.ErrLost)
	require.Equal(t, "a", kit.Receive(t, seen.lost, "the loss").Name)
	require.ErrorIs(t, m.Unlock(kit.Background), relock.ErrLost)
	require.NoError(t, n.Err(), "the late Unlock ended another's hold")
	kit.Unlock(t, kit.Background, n)
	require.Empty(t, kit.Keys(t, client))
}
