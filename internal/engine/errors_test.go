package engine

import (
	"context"
	"testing"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/transport"
	"github.com/stretchr/testify/require"
)

func TestLateReplyIsTriedAgain(t *testing.T) {
	require.True(t, transport.Transient(ErrLate))
	_, ok := transport.Code(ErrLate)
	require.False(t, ok, "it is taken for an error reply")
}

// Redis refuses writes while it cannot save or has no memory. A release is worth another try then, unlike
// an acquisition.
func TestReleaseIsTriedAgainWhileRedisCannotWrite(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	for text, again := range map[string]bool{
		"MISCONF Redis is configured to save RDB snapshots":                 true,
		"OOM command not allowed when used memory > 'maxmemory'.":           true,
		"LOADING Redis is loading the dataset in memory":                    true,
		"WRONGTYPE Operation against a key holding the wrong kind of value": false,
	} {
		err := client.Do(context.Background(), client.B().Eval().Script("return redis.error_reply(ARGV[1])").Numkeys(0).Arg(text).Build()).Error()
		require.Error(t, err)
		require.Equal(t, again, lease.RetryRelease(err), "%q", text)
	}
}
