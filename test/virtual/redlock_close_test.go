package virtual_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// A Redlock that pauses between two rounds hears at once that a majority of its sessions is closed.
func TestClosedRedlockEndsItsPause(t *testing.T) {
	inFive(t, func(t *testing.T, w *world, p *process) {
		other := w.process()
		held := other.held()
		result := make(chan error, 1)
		go func() { result <- p.lock().Lock(background) }()
		time.Sleep(10 * time.Second) // the pauses have become long
		closed := time.Now()
		for _, s := range p.s {
			go func() { _ = s.Close(background) }()
		}
		require.ErrorIs(t, <-result, relock.ErrClosed)
		require.Less(t, time.Since(closed), 5*time.Millisecond)
		require.NoError(t, held.Unlock(background))
	})
}
