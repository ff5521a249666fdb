package virtual_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
	"github.com/relock-go/relock/relocktest"
)

// stranger returns the network of a process that has no session yet.
func stranger(t testing.TB) *memredis.Process {
	r := relocktest.New(t)
	return memredis.Of(r, r.Session()).Server().Process()
}

func clientOf(t testing.TB, n *memredis.Process) rueidis.Client {
	t.Helper()
	client, err := n.Client()
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// A session took 11 round trips to start, besides two for its connection.
func TestASessionStartsWithinSixRoundTrips(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := stranger(t)
		client := clientOf(t, n)
		n.Delay(50 * time.Millisecond)
		start := time.Now()
		s, err := relock.NewSession(background, client)
		require.NoError(t, err)
		require.Equal(t, 600*time.Millisecond, time.Since(start))
		require.NoError(t, s.Close(background))
	})
}

// A session that starts waits for a server that is not ready, and says what that said if its context ends first.
func TestASessionThatStartsWaitsUntilTheServerIsReady(t *testing.T) {
	t.Parallel()
	for _, said := range []string{"LOADING Redis is loading the dataset in memory", "BUSY Redis is busy"} {
		synctest.Test(t, func(t *testing.T) {
			n := stranger(t)
			client := clientOf(t, n)
			allow := n.Server().FailScripts(said)
			ctx, cancel := context.WithTimeout(background, time.Minute)
			defer cancel()
			start := time.Now()
			_, err := relock.NewSession(ctx, client)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, said)
			require.Equal(t, time.Minute, time.Since(start))

			time.AfterFunc(time.Minute, allow)
			s, err := relock.NewSession(background, client)
			require.NoError(t, err)
			require.NoError(t, s.Close(background))
		})
	}
}
