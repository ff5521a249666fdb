package locks_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

// A script keeps its first line, which tells the server which Lua it is, and its errors tell its
// lines.
func TestEvalLeavesTheScriptAsItIs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := kit.NewSession(t, server)
	h, err := s.Mutex("lock").Acquire(kit.Background)
	require.NoError(t, err)
	for _, first := range []string{"", "#!lua flags=no-writes\n"} {
		if err := h.Eval(kit.Background, first+"return 1", nil, nil).Error(); first != "" && err != nil {
			require.ErrorContains(t, err, "near '#'", "before Redis 7")
			continue
		}
		all, err := h.Eval(kit.Background, first+"return {#KEYS, KEYS[1], ARGV[2]}", []string{"k"}, []string{"a", "b"}).ToArray()
		require.NoError(t, err)
		n, err := all[0].AsInt64()
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		for i, want := range map[int]string{1: "k", 2: "b"} {
			text, err := all[i].ToString()
			require.NoError(t, err)
			require.Equal(t, want, text)
		}
		err = h.Eval(kit.Background, first+"\n\nerror('here')", nil, nil).Error()
		line := "user_script:3: here"
		if first != "" {
			line = "user_script:4: here"
		}
		require.ErrorContains(t, err, line)
	}
	require.NoError(t, h.Err())
	require.NoError(t, h.Unlock(kit.Background))
}

// Each of many processes counts in a script, and then takes away what it has read in a script that
// comes after its Unlock: only the first is under its hold.
func TestEvalIsUnderTheHoldAlone(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var wg sync.WaitGroup
	const processes, rounds = 4, 50
	for range processes {
		s := kit.NewSession(t, server)
		for range 2 {
			wg.Go(func() {
				m := s.Mutex("lock", relock.WithKeep(time.Minute))
				for range rounds {
					h, err := m.Acquire(kit.Background)
					if err != nil {
						t.Error(err)
						return
					}
					n, err := h.Eval(kit.Background, "return redis.call('incr', KEYS[1])", []string{"count"}, nil).AsInt64()
					if err != nil {
						t.Error(err)
					}
					ctx, cancel := context.WithCancel(kit.Background)
					go cancel() // at any moment
					_ = h.Eval(ctx, "return redis.call('set', KEYS[1], ARGV[1])", []string{"count"}, []string{strconv.FormatInt(n, 10)}).Error()
					if err := h.Unlock(kit.Background); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	client := kit.NewClient(t, server)
	n, err := client.Do(kit.Background, client.B().Get().Key("count").Build()).AsInt64()
	require.NoError(t, err)
	require.EqualValues(t, 2*processes*rounds, n)
}
