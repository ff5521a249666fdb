package locks_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/stretchr/testify/require"
)

// pttl returns the time to live of a key.
func pttl(t testing.TB, client rueidis.Client, key string) time.Duration {
	t.Helper()
	ms, err := client.Do(kit.Background, client.B().Pttl().Key(key).Build()).AsInt64()
	require.NoError(t, err)
	return time.Duration(ms) * time.Millisecond
}

func TestADayLongLease(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		const day = 24 * time.Hour
		s, client := kit.NewSession(t, at, relock.WithLease(day)), kit.NewClient(t, at)
		for _, m := range []*relock.Mutex{s.Mutex("lock"), s.Mutex("lock", relock.WithFixedLease(day))} {
			kit.Lock(t, kit.Background, m)
			require.InDelta(t, day, pttl(t, client, "lock"), float64(time.Minute))
			until, ok := m.Deadline()
			require.True(t, ok)
			require.InDelta(t, day, time.Until(until), float64(10*time.Minute))
			kit.Unlock(t, kit.Background, m)
		}
	})
}
