package locks_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A doKind is a lock that Do may be given.
type doKind struct {
	name     string
	of       func(s *relock.Session, name string) relock.Locker
	fenced   bool // has a token
	deadline bool // has a deadline that is known
	reads    bool
}

var doKinds = []doKind{
	{"Mutex", func(s *relock.Session, name string) relock.Locker { return s.Mutex(name) }, true, true, false},
	{"FairMutex", func(s *relock.Session, name string) relock.Locker { return s.FairMutex(name) }, true, true, false},
	{"writer", func(s *relock.Session, name string) relock.Locker { return s.RWMutex(name) }, true, true, false},
	{"reader", func(s *relock.Session, name string) relock.Locker { return s.RWMutex(name).RLocker() }, false, true, true},
	{"Group", func(s *relock.Session, name string) relock.Locker {
		return relock.NewGroup(s.Mutex(name), s.Mutex(name+" too"))
	}, false, true, false},
	{"Group of all types", func(s *relock.Session, name string) relock.Locker {
		return relock.NewGroup(s.RWMutex(name+" 1").RLocker(), s.FairMutex(name), relock.NewGroup(s.Mutex(name+" 2")),
			relock.NewRedlock([]*relock.Session{s}, name+" 3"))
	}, false, true, false},
	{"Redlock", func(s *relock.Session, name string) relock.Locker {
		return relock.NewRedlock([]*relock.Session{s}, name)
	}, false, true, false},
	{"stranger", func(s *relock.Session, name string) relock.Locker { return stranger{s.Mutex(name)} }, false, false, false},
	{"careless stranger", func(s *relock.Session, name string) relock.Locker { return careless{s.Mutex(name)} }, false, false, false},
	{"Group with a stranger", func(s *relock.Session, name string) relock.Locker {
		return relock.NewGroup(stranger{s.Mutex(name)}, s.Mutex(name+" too"))
	}, false, false, false},
}

// careless is a stranger whose Unlock does not say that the lock was lost.
type careless struct{ relock.Locker }

func (l careless) Unlock(ctx context.Context) error { return kit.LostOrNil(l.Locker.Unlock(ctx)) }

// eachDo runs f for each lock, named after its kind, with and without an owner.
func eachDo(t *testing.T, f func(t *testing.T, ctx context.Context, s *relock.Session, k doKind, name string)) {
	t.Helper()
	t.Parallel()
	server := redistest.Start(t)
	s := kit.NewSession(t, server)
	for _, k := range doKinds {
		for by, ctx := range map[string]context.Context{"itself": kit.Background, "an owner": s.NewContext(kit.Background)} {
			t.Run(k.name+" by "+by, func(t *testing.T) { f(t, ctx, s, k, k.name+" by "+by) })
		}
	}
}

func TestDoTellsOfItsHold(t *testing.T) {
	eachDo(t, func(t *testing.T, ctx context.Context, s *relock.Session, k doKind, name string) {
		l := k.of(s, name)
		require.Zero(t, relock.Token(ctx))
		_, ok := relock.Deadline(ctx)
		require.False(t, ok)
		var inside context.Context
		var token int64
		require.NoError(t, relock.Do(ctx, l, func(ctx context.Context) error {
			inside, token = ctx, relock.Token(ctx)
			require.Equal(t, k.fenced, token > 0)
			if k.fenced {
				require.Equal(t, l.(kit.FencedLocker).FencingToken(), token)
			}
			at, ok := relock.Deadline(ctx)
			require.Equal(t, k.deadline, ok)
			if l, has := l.(kit.Deadliner); has {
				want, _ := l.Deadline()
				require.WithinDuration(t, want, at, time.Second)
			}
			if ok {
				require.WithinDuration(t, time.Now().Add(30*time.Second), at, 20*time.Second)
			}
			return nil
		}))
		require.Equal(t, token, relock.Token(inside))
		_, ok = relock.Deadline(inside)
		require.False(t, ok, "the hold has ended")
	})
}

func TestDoThatLosesItsHold(t *testing.T) {
	eachDo(t, func(t *testing.T, ctx context.Context, s *relock.Session, k doKind, name string) {
		for what, f := range map[string]struct {
			result func(ctx context.Context) error
			own    bool
		}{
			"nil":             {func(context.Context) error { return nil }, false},
			"its context's":   {context.Context.Err, false},
			"the cause":       {context.Cause, false},
			"one of its own":  {func(context.Context) error { return errOwn }, true},
			"that and Err":    {func(ctx context.Context) error { return errors.Join(ctx.Err(), errOwn) }, true},
			"that in Err":     {func(ctx context.Context) error { return fmt.Errorf("%w: %w", errOwn, ctx.Err()) }, true},
			"Err, wrapped":    {func(ctx context.Context) error { return fmt.Errorf("query: %w", ctx.Err()) }, false},
			"cause, wrapped":  {func(ctx context.Context) error { return fmt.Errorf("query: %w", context.Cause(ctx)) }, false},
			"that and causes": {func(ctx context.Context) error { return errors.Join(context.Cause(ctx), errOwn) }, true},
		} {
			err := relock.Do(ctx, k.of(s, name), func(ctx context.Context) error {
				token := relock.Token(ctx)
				was, err := s.ForceUnlock(kit.Background, name)
				require.NoError(t, err)
				require.True(t, was)
				kit.Receive(t, ctx.Done(), "the context to end")
				require.ErrorIs(t, context.Cause(ctx), relock.ErrLost)
				require.Equal(t, token, relock.Token(ctx))
				_, ok := relock.Deadline(ctx)
				require.False(t, ok)
				return f.result(ctx)
			})
			require.ErrorIs(t, err, relock.ErrLost, what)
			require.NotErrorIs(t, err, context.Canceled, what)
			require.Equal(t, f.own, errors.Is(err, errOwn), what)
			require.NotContains(t, err.Error(), "\n", what)
			require.True(t, strings.HasPrefix(err.Error(), "relock: "), "%s: %v", what, err)
		}
		require.NoError(t, relock.Do(ctx, k.of(s, name), func(context.Context) error { return nil }), "nothing is left")
	})
}

// The caller's context ends too: then both is true.
func TestDoThatLosesItsHoldAndWasCancelled(t *testing.T) {
	eachDo(t, func(t *testing.T, ctx context.Context, s *relock.Session, k doKind, name string) {
		ctx, cancel := context.WithCancelCause(ctx)
		err := relock.Do(ctx, k.of(s, name), func(ctx context.Context) error {
			_, err := s.ForceUnlock(kit.Background, name)
			require.NoError(t, err)
			kit.Receive(t, ctx.Done(), "the context to end")
			cancel(kit.ErrStop)
			return ctx.Err()
		})
		require.ErrorIs(t, err, relock.ErrLost)
		require.ErrorIs(t, err, context.Canceled)
	})
}

// The token that the store checks is that of the hold that went with the work, although
// another owner has a newer hold through the same handle.
func TestTokenIsThatOfDosOwnHold(t *testing.T) {
	eachDo(t, func(t *testing.T, ctx context.Context, s *relock.Session, k doKind, name string) {
		if !k.fenced {
			return // it has no tokens
		}
		l, other := k.of(s, name).(kit.FencedLocker), s.NewContext(kit.Background)
		err := relock.Do(ctx, l, func(ctx context.Context) error {
			token := relock.Token(ctx)
			forceUnlock(t, s, l.(namedLocker))
			kit.Lock(t, other, l)
			require.Greater(t, l.FencingToken(), token)
			require.Equal(t, token, relock.Token(ctx))
			_, ok := relock.Deadline(ctx)
			require.False(t, ok)
			return nil
		})
		require.ErrorIs(t, err, relock.ErrLost)
		require.NoError(t, l.Err())
		kit.Unlock(t, other, l)
	})
}

// In a Do within a Do, the context tells of the inner hold.
func TestTokenInANestedDo(t *testing.T) {
	eachDo(t, func(t *testing.T, ctx context.Context, s *relock.Session, k doKind, name string) {
		outer := s.Mutex(name + ", around")
		require.NoError(t, relock.Do(ctx, outer, func(ctx context.Context) error {
			token := relock.Token(ctx)
			require.NoError(t, relock.Do(ctx, k.of(s, name), func(ctx context.Context) error {
				require.NotEqual(t, token, relock.Token(ctx))
				require.Equal(t, k.fenced, relock.Token(ctx) > 0)
				_, ok := relock.Deadline(ctx)
				require.Equal(t, k.deadline, ok)
				return nil
			}))
			require.Equal(t, token, relock.Token(ctx))
			return nil
		}))
	})
}

func TestTryDoOfEveryLock(t *testing.T) {
	eachDo(t, func(t *testing.T, ctx context.Context, s *relock.Session, k doKind, name string) {
		l := k.of(s, name)
		calls := 0
		f := func(ctx context.Context) error {
			calls++
			require.Equal(t, k.fenced, relock.Token(ctx) > 0)
			return errOwn
		}
		taken := s.Mutex(name)
		kit.Lock(t, kit.Background, taken)
		ran, err := relock.TryDo(ctx, l, f)
		require.NoError(t, err)
		require.False(t, ran)
		kit.Unlock(t, kit.Background, taken)

		redistest.Eventually(t, kit.Soon, "what the attempt gave back to be free", func() bool {
			ran, err = relock.TryDo(ctx, l, f)
			return ran
		})
		require.Equal(t, errOwn, err)
		require.Equal(t, 1, calls)
		require.ErrorIs(t, l.Err(), relock.ErrNotHeld)

		ran, err = relock.TryDo(kit.Cancelled(), l, f)
		require.False(t, ran)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 1, calls)
	})
}

// losing loses each hold before its Lock returns, and lets another owner lock the handle.
type losing struct {
	*relock.Mutex
	t     *testing.T
	s     *relock.Session
	other context.Context
	token int64
}

func (l *losing) Lock(ctx context.Context) error {
	kit.Lock(l.t, ctx, l.Mutex)
	l.token = l.FencingToken()
	forceUnlock(l.t, l.s, l.Mutex)
	kit.Lock(l.t, l.other, l.Mutex)
	return nil
}

// A hold may be lost before Do can look at it: the token is still its own.
func TestTokenOfAHoldThatWasLostAtOnce(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s := kit.NewSession(t, at)
		l := &losing{Mutex: s.Mutex("lock"), t: t, s: s, other: s.NewContext(kit.Background)}
		for _, ctx := range []context.Context{kit.Background, s.NewContext(kit.Background)} {
			err := relock.Do(ctx, l, func(ctx context.Context) error {
				kit.Receive(t, ctx.Done(), "the loss")
				require.NotZero(t, l.token)
				require.Equal(t, l.token, relock.Token(ctx))
				return context.Cause(ctx)
			})
			require.ErrorIs(t, err, relock.ErrLost)
			require.NoError(t, l.Err())
			kit.Unlock(t, l.other, l)
		}
	})
}
