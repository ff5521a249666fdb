package lockerr

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTextsSayNothingOfScripts(t *testing.T) {
	const sha = "5e1f00000000000000000000000000000000beef"
	for from, want := range map[string]string{
		"WRONGTYPE Operation against a key script: " + sha + ", on @user_script:3.":                               "WRONGTYPE Operation against a key",
		"ERR Error running script (call to f_" + sha + "): @user_script:3: @user_script: 3: -WRONGTYPE Operation": "WRONGTYPE Operation",
		"Error running script (call to f_" + sha + "): @user_script:82: OOM command not allowed":                  "OOM command not allowed",
		"two\nlines\n": "two; lines",
	} {
		require.EqualError(t, New("lock", "a", errors.New(from)), `relock: lock "a": `+want)
	}
}

func TestJoinedErrorsAreOneLine(t *testing.T) {
	a, b, theirs := New("unlock", "a", ErrLost), New("unlock", "b", ErrLost), errors.New("no money")
	require.NoError(t, Join(nil, nil))
	require.Equal(t, a, Join(nil, a))
	require.EqualError(t, Join(a, nil, b), `relock: unlock "a": lock lost; unlock "b": lock lost`)
	require.EqualError(t, Join(theirs, a), `no money; relock: unlock "a": lock lost`)
	require.EqualError(t, Join(Join(a, b), errors.Join(theirs, io.EOF)), `relock: unlock "a": lock lost; unlock "b": lock lost; no money; EOF`)
	for _, want := range []error{ErrLost, theirs, a} {
		require.ErrorIs(t, Join(b, Join(a, theirs)), want)
	}
}

func TestTakenSaysForHowLong(t *testing.T) {
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	err := Taken("lock", "order:1", ctx, 1549*time.Millisecond)
	require.EqualError(t, err, `relock: lock "order:1": taken by another holder for 1.5s: context canceled; enough`)
	for _, want := range []error{ErrTaken, context.Canceled, cause} {
		require.ErrorIs(t, err, want)
	}
	require.NotErrorIs(t, Ended("lock", "order:1", ctx, nil), ErrTaken)
	for d, want := range map[time.Duration]string{0: "0s", 1234: "1.2µs", 56789 * time.Microsecond: "56.8ms", 61240 * time.Millisecond: "1m1.2s"} {
		require.Equal(t, want, Span(d))
	}
}

func TestFailureOfATryIsToldAsThatOfItsCall(t *testing.T) {
	require.EqualError(t, Tried(New("try rlock", "a", io.EOF), false), `relock: rlock "a": EOF`)
	require.EqualError(t, Tried(New("lock", "a", io.EOF), true), `relock: try lock "a": EOF`)
	require.Equal(t, io.EOF, Tried(io.EOF, true))
	require.NoError(t, Tried(nil, true))
	require.EqualError(t, Bare(New("lock", "a", io.EOF, ErrLost)), "EOF; relock: lock lost")
	require.NoError(t, Bare(nil))
}
