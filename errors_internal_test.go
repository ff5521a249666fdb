package relock

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/redis/rueidis"
)

var sentinels = []error{ErrLost, ErrNotHeld, ErrClosed, ErrUpgrade, ErrName, ErrOption, errZero}

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
		"Error running script (call to f_5e1f): @user_script:1: -LOADING Redis is loading":                                     "LOADING",
		"Error running script (call to f_5e1f): @user_script:1: Script attempted to access nonexistent global variable 'tick'": "Error",
	} {
		if got := redisCode(text); got != want {
			t.Errorf("%q: code %q, want %q", text, got, want)
		}
	}
}

// Errors are judged as they come from a server.
func TestWhichErrorsPass(t *testing.T) {
	r := newRig(t)
	reply := func(text string) error {
		err := r.do("EVAL", "return redis.error_reply(ARGV[1])", "0", text).Error()
		if err == nil {
			t.Fatalf("%q came as no error", text)
		}
		return err
	}
	for text, passes := range map[string]bool{
		"LOADING Redis is loading the dataset in memory":                                            true,
		"READONLY You can't write against a read only replica.":                                     true,
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":          true,
		"CLUSTERDOWN The cluster is down":                                                           true,
		"TRYAGAIN Multiple keys request during rehashing of slot":                                   true,
		"NOREPLICAS Not enough good replicas to write.":                                             true,
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.":    true,
		"UNBLOCKED force unblock from blocking operation, instance state changed":                   true,
		"ERR max number of clients reached":                                                         true,
		"ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -LOADING loading": true,
		"WRONGTYPE Operation against a key holding the wrong kind of value":                         false,
		"NOAUTH Authentication required.":                                                           false,
		"NOPERM this user has no permissions to run the 'evalsha' command":                          false,
		"OOM command not allowed when used memory > 'maxmemory'.":                                   false,
		"MISCONF Redis is configured to save RDB snapshots":                                         false,
		"ERR syntax error": false,
	} {
		if got := transient(reply(text)); got != passes {
			t.Errorf("%q: transient = %v", text, got)
		}
	}
	for err, passes := range map[error]bool{
		io.EOF:                   true,
		io.ErrUnexpectedEOF:      true,
		errLate:                  true,
		context.DeadlineExceeded: false,
		context.Canceled:         false,
		rueidis.ErrClosing:       false,
		&replicaError{1, 2}:      false,
	} {
		if got := transient(err); got != passes {
			t.Errorf("%v: transient = %v", err, got)
		}
		if _, ok := redisError(err); ok {
			t.Errorf("%v is taken for an error reply", err)
		}
	}
	if got := retryRelease(reply("MISCONF Redis is configured to save RDB snapshots")); !got {
		t.Error("a release is not tried again when Redis cannot save")
	}
}

func TestEveryErrorTextStartsWithTheName(t *testing.T) {
	all := append([]error{}, sentinels...)
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("enough"))
	for _, s := range sentinels {
		all = append(all,
			failed("lock", "a", s),
			failed("lock", "a", io.EOF, s),
			failed("lock", "", s, io.EOF),
			failed("lock", "a", failed("unlock", "b", s)),
			ctxFailed("lock", "a", ctx, s),
			redisFailed("renew", "", s),
			errors.Join(s, ErrNotHeld))
	}
	for _, err := range all {
		text := err.Error()
		if !strings.HasPrefix(text, "relock: ") {
			t.Errorf("%q", text)
		}
		if _, joined := err.(interface{ Unwrap() []error }); joined && !strings.Contains(text, "\n") && strings.Count(text, "relock: ") > 1 {
			t.Errorf("the name twice: %q", text)
		}
	}
	if got := failed("unlock", "a", ErrLost, errGone).Error(); got != `relock: unlock "a": lock lost; it is not in Redis any more` {
		t.Errorf("%q", got)
	}
}

func TestFailuresAreAllOfTheirCauses(t *testing.T) {
	cause := errors.New("the user went away")
	last := &replicaError{1, 2}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	err := ctxFailed("lock", "a", ctx, last)
	for _, want := range []error{context.Canceled, cause, last} {
		if !errors.Is(err, want) {
			t.Errorf("%v is not %v", err, want)
		}
	}
	var few *replicaError
	if !errors.As(err, &few) {
		t.Errorf("%v is no *replicaError", err)
	}
	if got := err.Error(); got != `relock: lock "a": context canceled; the user went away; 1 of 2 replicas have acknowledged it in time` {
		t.Errorf("%q", got)
	}

	// What says nothing new is left out.
	plain, stop := context.WithCancel(context.Background())
	stop()
	if got := ctxFailed("lock", "a", plain, nil).Error(); got != `relock: lock "a": context canceled` {
		t.Errorf("%q", got)
	}
	if got := failed("close", "", nil, ErrClosed, ErrClosed, nil).Error(); got != "relock: close: session closed" {
		t.Errorf("%q", got)
	}
	for _, s := range sentinels {
		for _, other := range sentinels {
			if got := errors.Is(failed("lock", "a", s, io.EOF), other); got != (s == other) {
				t.Errorf("errors.Is(%v, %v) = %v", s, other, got)
			}
		}
	}
	if redisFailed("renew", "", nil) != nil {
		t.Error("a failure without an error")
	}
}
