package redistest_test

import (
	"context"
	"sync"
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

func TestFrozenServerAnswersWhenThawed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := s.Client(t)
	require.NoError(t, s.Freeze())
	answered := make(chan error, 1)
	go func() { answered <- c.Do(context.Background(), c.B().Ping().Build()).Error() }()
	select {
	case err := <-answered:
		t.Fatalf("a frozen server answered %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	require.NoError(t, s.Thaw())
	require.NoError(t, <-answered)
	require.NoError(t, s.Freeze(), "left frozen: cleanup must cope")
}

func TestServerThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	redistest.Start(t) // skips where there is no redis-server
	_, err := redistest.Launch(t.TempDir(), "--no-such-option", "1")
	require.ErrorContains(t, err, "no-such-option")
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

func TestStatistics(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := s.Client(t)
	_, err := s.Do("CONFIG", "RESETSTAT")
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, do(t, c, "INCR", "n").Error())
	}
	require.Equal(t, int64(3), s.CommandStats()["incr"])

	before := s.CPU()
	_, err = s.Do("EVAL", "for i = 1, 5e6 do end", "0")
	require.NoError(t, err)
	require.Greater(t, s.CPU(), before)

	require.Zero(t, s.PubSubClients())
	require.Empty(t, s.Channels())
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	want, cmds := []string{"plain"}, []rueidis.Completed{c.B().Subscribe().Channel("plain").Build()}
	if redistest.Has(t, redistest.ShardedPubSub) {
		want, cmds = append(want, "sharded"), append(cmds, c.B().Ssubscribe().Channel("sharded").Build())
	}
	for _, cmd := range cmds {
		wg.Go(func() { _ = c.Receive(ctx, cmd, func(rueidis.PubSubMessage) {}) })
	}
	redistest.Eventually(t, soon, "the subscriptions", func() bool { return len(s.Channels()) == len(want) })
	require.Equal(t, want, s.Channels())
	require.Equal(t, 1, s.PubSubClients())
	cancel()
	wg.Wait()
}
