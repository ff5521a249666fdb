package virtual_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
)

// A server that cannot save refuses scripts. A hold lives through it as long as its lease allows,
// the observer is told what Redis says, and a Lock waits for it to pass.
func TestServerThatCannotSaveIsRiddenOut(t *testing.T) {
	const misconf = "MISCONF Redis is configured to save RDB snapshots"
	onEach(t, func(t *testing.T, w *world) {
		told := new(renewals)
		holder, waiter := w.process(relock.WithObserver(told)), w.process()
		l := holder.held()
		told.takeRounds()
		var allow []func()
		holder.networks(func(n *memredis.Process) {
			allow = append(allow, n.Server().FailScripts(misconf))
		})
		other := waiter.s[0].Mutex("other")
		got := begin(background, other)
		contender := begin(background, waiter.opposite())
		time.Sleep(lease * 4 / 5)
		rounds := told.takeRounds()
		require.NotEmpty(t, rounds)
		for _, r := range rounds {
			require.ErrorContains(t, r.Err, "MISCONF")
		}
		require.NoError(t, l.Err())
		require.Empty(t, got, "a Lock was ended, or got in")
		require.Empty(t, contender, "a Lock was ended, or got in")
		for _, f := range allow {
			f()
		}
		require.NoError(t, <-got)
		time.Sleep(lease)
		require.NoError(t, l.Err(), "the hold was not renewed in time")
		require.NoError(t, l.Unlock(background))
		require.NoError(t, <-contender)
		require.NoError(t, other.Unlock(background))
	})
}
