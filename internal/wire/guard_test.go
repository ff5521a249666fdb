package wire

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

func TestGuardKeepsDragonflyFlags(t *testing.T) {
	require.True(t, strings.HasPrefix(guarded("true", "--!df flags=allow-undeclared-keys\nreturn 1"), "--!df"))
}

// The lease of a permit has ended, and another permit keeps the key.
func TestGuardOfAnEndedPermit(t *testing.T) {
	r := newRig(t)
	short, long := r.lease(Semaphore, 1), r.lease(Semaphore, 2)
	short.Length = 50 * time.Millisecond
	r.take(short)
	r.take(long)
	time.Sleep(200 * time.Millisecond)
	err := r.Guarded(ctx0, short, "return redis.call('incr', KEYS[1])", []string{"{a}:n"}, nil).Error()
	require.ErrorContains(t, err, CodeLost)
}

// A guarded script does what it does without the guard, however odd its text; but "...", the
// arguments of the chunk, which EVAL does not fill, stays empty.
func TestGuardedScriptDoesWhatTheBareOneDoes(t *testing.T) {
	r := newRig(t)
	l := r.lease(Plain, 1)
	r.take(l)
	for _, script := range []string{
		"return 1 -- end", "#!lua\nreturn 1", "#!lua name=x flags=no-writes\nreturn 1",
		"#!lua flags=no-writes\nreturn KEYS[1]", "local KEYS = KEYS return KEYS[1]",
		"do return ARGV[1] end return 2", "return #KEYS .. #ARGV", "-- c\n--[[ x ]] return _G.KEYS[1]",
		"return loadstring('return KEYS[1]')()", "KEYS[1] = 'q' return KEYS[1]", "#!lua\r\nreturn 1", "",
		"return ...", strings.Repeat("local x = 1 ", 199) + "return KEYS[1]",
	} {
		got, err := r.Guarded(ctx0, l, script, []string{"k"}, []string{"a\x00\xff", "b"}).ToString()
		bare, bareErr := r.Do("EVAL", script, "1", "k", "a\x00\xff", "b").ToString()
		require.Equal(t, bare, got, "%.60q", script)
		require.Equal(t, bareErr == nil, err == nil, "%.60q: %v, %v", script, bareErr, err)
		require.Equal(t, rueidis.IsRedisNil(bareErr), rueidis.IsRedisNil(err), "%.60q", script)
	}
	many := make([]string, 20000)
	for i := range many {
		many[i] = "k"
	}
	n, err := r.Guarded(ctx0, l, "return #KEYS + #ARGV", many, many).AsInt64()
	require.NoError(t, err)
	require.EqualValues(t, 40000, n)
}
