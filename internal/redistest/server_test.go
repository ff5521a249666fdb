package redistest_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

const soon = 10 * time.Second

func do(t testing.TB, c rueidis.Client, args ...string) rueidis.RedisResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	return c.Do(ctx, c.B().Arbitrary(args...).Build())
}

func set(t testing.TB, c rueidis.Client, key, value string) {
	t.Helper()
	require.NoError(t, do(t, c, "SET", key, value).Error())
}

func TestRestartKeepsAddressAndWhatPersistenceKept(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"nothing": nil,
		"aof":     {"--appendonly", "yes", "--appendfsync", "always"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, args...)
			set(t, s.Client(t), "k", "v")
			addr, pid := s.Addr(), s.PID()
			require.NoError(t, s.Restart())
			require.Equal(t, addr, s.Addr())
			require.NotEqual(t, pid, s.PID())
			reply, err := s.Do("EXISTS", "k")
			require.NoError(t, err)
			require.Equal(t, int64(len(args)/4), reply)
		})
	}
}
