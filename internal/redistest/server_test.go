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

func TestDoReturnsEveryKindOfReply(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, c := range []struct {
		script string
		want   any
	}{
		{"return 'x'", "x"},
		{"return {ok = 'fine'}", "fine"},
		{"return 7", int64(7)},
		{"return false", nil},
		{"return {}", []any{}},
		{"return {1, {'a\\r\\nb', 2}}", []any{int64(1), []any{"a\r\nb", int64(2)}}},
	} {
		got, err := s.Do("EVAL", c.script, "0")
		require.NoError(t, err, c.script)
		require.Equal(t, c.want, got, c.script)
	}
	_, err := s.Do("EVAL", "return redis.error_reply('MINE no')", "0")
	require.EqualError(t, err, "MINE no")
}

func TestSlotIsWhatRedisSays(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--cluster-enabled", "yes")
	for _, key := range []string{"", "a", "123456789", "{tag}x", "x{tag}y{other}", "{}x", "x{", "x}{y", "{{a}}", "ключ"} {
		got, err := s.Do("CLUSTER", "KEYSLOT", key)
		require.NoError(t, err)
		require.Equal(t, got, int64(redistest.Slot(key)), key)
	}
}
