package lockerr

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var sentinels = []error{ErrLost, ErrNotHeld, ErrClosed, ErrUpgrade, ErrDeadlock, ErrName, ErrOption, ErrNotLock, ErrTaken}

// late is an error that a caller may look for with errors.As.
type late struct{ by string }

func (l *late) Error() string { return "late by " + l.by }

func TestEveryErrorTextStartsWithTheName(t *testing.T) {
	all := append([]error{}, sentinels...)
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("enough"))
	for _, s := range sentinels {
		all = append(all,
			New("lock", "a", s),
			New("lock", "a", io.EOF, s),
			New("lock", "", s, io.EOF),
			New("lock", "a", New("unlock", "b", s)),
			Ended("lock", "a", ctx, s),
			errors.Join(s, ErrNotHeld))
	}
	for _, err := range all {
		text := err.Error()
		require.True(t, strings.HasPrefix(text, "relock: "), "%q", text)
		if _, joined := err.(interface{ Unwrap() []error }); joined && !strings.Contains(text, "\n") {
			require.Equal(t, 1, strings.Count(text, "relock: "), "the name twice: %q", text)
		}
	}
	require.EqualError(t, New("unlock", "a", ErrLost, errors.New("it is not in Redis any more")),
		`relock: unlock "a": lock lost; it is not in Redis any more`)
}

func TestErrorIsEachOfItsCauses(t *testing.T) {
	cause, last := errors.New("the user went away"), &late{"a second"}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	err := Ended("lock", "a", ctx, last)
	for _, want := range []error{context.Canceled, cause, last} {
		require.ErrorIs(t, err, want)
	}
	var as *late
	require.ErrorAs(t, err, &as)
	require.EqualError(t, err, `relock: lock "a": context canceled; the user went away; late by a second`)
}

func TestErrorIsNoOtherSentinelThanItsOwn(t *testing.T) {
	for _, s := range sentinels {
		for _, other := range sentinels {
			require.Equal(t, s == other, errors.Is(New("lock", "a", s, io.EOF), other), "errors.Is(%v, %v)", s, other)
		}
	}
}

func TestCausesThatSayNothingNewAreLeftOut(t *testing.T) {
	plain, stop := context.WithCancel(context.Background())
	stop()
	require.EqualError(t, Ended("lock", "a", plain, nil), `relock: lock "a": context canceled`)
	require.EqualError(t, New("close", "", nil, ErrClosed, ErrClosed, nil), "relock: close: session closed")
	require.NoError(t, New("renew", "", nil), "a failure without an error")
}

func TestJoinedErrorsAreOneLine(t *testing.T) {
	a, b, theirs := New("unlock", "a", ErrLost), New("unlock", "b", ErrLost), errors.New("no money")
	require.NoError(t, Join(nil, nil))
	require.Equal(t, a, Join(nil, a))
	for want, err := range map[string]error{
		`relock: unlock "a": lock lost; unlock "b": lock lost`:                Join(a, nil, b),
		`relock: no money; unlock "a": lock lost`:                             Join(theirs, a),
		`relock: unlock "a": lock lost; unlock "b": lock lost; no money; EOF`: Join(Join(a, b), errors.Join(theirs, io.EOF)),
		`relock: lock "a": two; lines`:                                        New("lock", "a", errors.New("two\nlines\n")),
		"relock: EOF; lock lost":                                              Bare(New("lock", "a", io.EOF, ErrLost)),
	} {
		require.EqualError(t, err, want)
	}
	require.NoError(t, Bare(nil))
	for _, want := range []error{ErrLost, theirs, a} {
		require.ErrorIs(t, Join(b, Join(a, theirs)), want)
	}
}

func TestTakenSaysForHowLong(t *testing.T) {
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	err := Taken("lock", "order:1", ctx, 1549*time.Millisecond, nil)
	require.EqualError(t, err, `relock: lock "order:1": lock taken by another holder for 1.55s; context canceled; enough`)
	for _, want := range []error{ErrTaken, context.Canceled, cause} {
		require.ErrorIs(t, err, want)
	}
	require.NotErrorIs(t, Ended("lock", "order:1", ctx, nil), ErrTaken)
	err = Taken("lock", "order:1", ctx, 1549*time.Millisecond, Here("Lock without an owner", 2*time.Minute))
	require.EqualError(t, err, `relock: lock "order:1": lock taken by this process itself, by Lock without an owner, 2m0s ago; `+
		`waited for 1.55s; context canceled; enough`)
	for _, want := range []error{ErrTaken, context.Canceled, cause} {
		require.ErrorIs(t, err, want)
	}
}
