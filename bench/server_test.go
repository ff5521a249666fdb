package main

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestServerTellsWhatItDoes(t *testing.T) {
	needRedis(t)
	s, err := openServer(t.TempDir(), "")
	require.NoError(t, err)
	defer s.close()
	ctx := t.Context()
	before, err := s.load()
	require.NoError(t, err)
	n, err := s.commands(func() error {
		script := `redis.call("SET", KEYS[1], "v", "PX", 60000); return redis.call("GET", KEYS[1])`
		return errors.Join(s.c.Eval(ctx, script, []string{"lua] k"}).Err(), s.c.Ping(ctx).Err())
	})
	require.NoError(t, err)
	assert.EqualValues(t, 1, n, "commands; want the EVAL alone")
	after, err := s.load()
	require.NoError(t, err)
	if d := after.since(before); d.scripts != 1 || d.keys != 1 || d.memory <= 0 || d.cpu <= 0 {
		t.Errorf("after one script that made one key: %+v", d)
	}
	ttls, err := s.ttls([]string{"lua] k", "none"})
	require.NoError(t, err)
	require.Len(t, ttls, 2)
	assert.InDelta(t, time.Minute, ttls[0], float64(time.Minute-1))
	assert.LessOrEqual(t, ttls[0], time.Minute)
	assert.Negative(t, ttls[1])
	require.NoError(t, s.clear())
	left, err := s.load()
	require.NoError(t, err)
	assert.Zero(t, left.keys, "after clear")
}
