package transport

import (
	"context"
	"io"
	"testing"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestCodeOfAnErrorReply(t *testing.T) {
	for text, want := range map[string]string{
		"WRONGTYPE Operation against a key holding the wrong kind of value": "WRONGTYPE",
		"LOADING Redis is loading the dataset in memory":                    "LOADING",
		"NOAUTH":                           "NOAUTH",
		"unknown command":                  "unknown",
		"ERR unknown command":              "unknown",
		"Error running script (no code) :": "Error",
		"":                                 "",
		// Redis 7, inside a script.
		"WRONGTYPE Operation against a key script: 5e1f, on @user_script:3.": "WRONGTYPE",
		// Redis 6, inside a script, as it is on the wire and as the client shows it.
		"ERR Error running script (call to f_5e1f): @user_script:3: @user_script: 3: -WRONGTYPE Operation against a key":       "WRONGTYPE",
		"Error running script (call to f_5e1f): @user_script:3: @user_script: 3: -READONLY You can't write against":            "READONLY",
		"@user_script: 1: -READONLY You can't write against a read only replica.":                                              "READONLY",
		"Error running script (call to f_5e1f): @user_script:1: -LOADING Redis is loading":                                     "LOADING",
		"Error running script (call to f_5e1f): @user_script:82: WRONGTYPE Operation against a key":                            "WRONGTYPE",
		"Error running script (call to f_5e1f): @user_script:1: Script attempted to access nonexistent global variable 'tick'": "Error",
	} {
		require.Equal(t, want, RedisCode(text), "%q", text)
	}
}

// replies returns a function that has a server answer a command, and returns the error
// as the client shows it.
func replies(t *testing.T, s *redistest.Server) func(args ...string) error {
	client := s.Client(t)
	return func(args ...string) error {
		return client.Do(context.Background(), client.B().Arbitrary(args...).Build()).Error()
	}
}

func TestErrorRepliesThatMayPassAreTransientAndOthersAreNot(t *testing.T) {
	t.Parallel()
	do := replies(t, redistest.Start(t))
	for text, want := range map[string]struct{ passes, ofKeys bool }{
		"LOADING Redis is loading the dataset in memory":                                            {true, false},
		"READONLY You can't write against a read only replica.":                                     {true, false},
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":          {true, false},
		"CLUSTERDOWN The cluster is down":                                                           {true, false},
		"TRYAGAIN Multiple keys request during rehashing of slot":                                   {true, true},
		"MOVED 3999 127.0.0.1:6381":                                                                 {true, true},
		"ASK 3999 127.0.0.1:6381":                                                                   {true, true},
		"NOREPLICAS Not enough good replicas to write.":                                             {true, false},
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.":    {true, false},
		"UNBLOCKED force unblock from blocking operation, instance state changed":                   {true, false},
		"ERR max number of clients reached":                                                         {true, false},
		"ERR Script attempted to access a non local key in a cluster node":                          {true, true},
		"ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -LOADING loading": {true, false},
		"WRONGTYPE Operation against a key holding the wrong kind of value":                         {false, true},
		"NOAUTH Authentication required.":                                                           {false, false},
		"NOPERM No permissions to access a key":                                                     {false, true},
		"OOM command not allowed when used memory > 'maxmemory'.":                                   {false, false},
		"MISCONF Redis is configured to save RDB snapshots":                                         {true, false},
		"ERR syntax error": {false, true},
	} {
		err := do("EVAL", "return redis.error_reply(ARGV[1])", "0", text)
		require.Error(t, err, "%q came as no error", text)
		require.Equal(t, want.passes, Transient(err), "%q", text)
		require.Equal(t, want.ofKeys, OfKeys(err), "%q", text)
	}
	require.False(t, OfKeys(nil))
}

func TestLostConnectionsAreTransientAndEndsOfCallsAreNot(t *testing.T) {
	for err, passes := range map[error]bool{
		io.EOF:                   true,
		io.ErrUnexpectedEOF:      true,
		errReplaced:              true,
		context.DeadlineExceeded: false,
		context.Canceled:         false,
		rueidis.ErrClosing:       false,
		ErrPool:                  false,
		&ReplicaError{1, 2}:      false,
	} {
		require.Equal(t, passes, Transient(err), "%v", err)
		require.False(t, OfKeys(err), "%v", err)
		_, ok := Code(err)
		require.False(t, ok, "%v is taken for an error reply", err)
	}
}

func TestOnlySomeRepliesMeanThatACommandIsUnsupported(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	do := replies(t, s)
	require.NoError(t, do("ACL", "SETUSER", "default", "-role"))
	for what, c := range map[string]struct {
		args []string
		want bool
	}{
		"no permission":      {[]string{"ROLE"}, true},
		"unknown command":    {[]string{"NOSUCH"}, true},
		"unknown subcommand": {[]string{"PUBSUB", "NOSUCH"}, true},
		"wrong use":          {[]string{"GET"}, false},
		"busy":               {[]string{"EVAL", "return redis.error_reply('BUSY with it')", "0"}, false},
		"loading":            {[]string{"EVAL", "return redis.error_reply('LOADING it')", "0"}, false},
		"before Redis 7":     {[]string{"EVAL", "return redis.error_reply(\"ERR Unknown subcommand or wrong number of arguments for 'SHARDNUMSUB'\")", "0"}, true},
		"none":               {[]string{"PING"}, false},
	} {
		err := do(c.args...)
		require.Equal(t, c.want, Unsupported(err), "%s: %v", what, err)
	}
}
