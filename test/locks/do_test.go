package locks_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

var errOwn = errors.New("the function's own error")

// careless is a stranger whose Unlock does not say that the lock was lost.
type careless struct{ relock.Locker }

func (l careless) Unlock(ctx context.Context) error { return kit.LostOrNil(l.Locker.Unlock(ctx)) }

// strange are locks of which Do knows no deadline.
var strange = []kind{
	{"stranger", 1, func(ss []*relock.Session, name string, _ ...relock.LockOption) relock.Locker {
		return stranger{ss[0].Mutex(name)}
	}, false, false},
	{"careless stranger", 1, func(ss []*relock.Session, name string, _ ...relock.LockOption) relock.Locker {
		return careless{ss[0].Mutex(name)}
	}, false, false},
	{"Group with a stranger", 1, func(ss []*relock.Session, name string, _ ...relock.LockOption) relock.Locker {
		return relock.NewGroup(stranger{ss[0].Mutex(name)}, ss[0].Mutex(name+" too"))
	}, false, false},
}

// eachDo runs f for each lock, with and without an owner. The name of the lock is that of the kind.
func eachDo(t *testing.T, f func(t *testing.T, ctx context.Context, s *relock.Session, k *kind, known bool)) {
	t.Helper()
	t.Parallel()
	server := redistest.Start(t)
	for i, k := range append(kinds[:len(kinds):len(kinds)], strange...) {
		t.Run(k.name, func(t *testing.T) {
			s := kit.NewSession(t, server)
			for _, ctx := range []context.Context{kit.Background, s.NewContext(kit.Background)} {
				f(t, ctx, s, &k, i < len(kinds))
			}
		})
	}
}

func TestDoTellsOfItsHold(t *testing.T) {
	eachDo(t, func(t *testing.T, ctx context.Context, s *relock.Session, k *kind, known bool) {
		l := k.on(s, k.name)
		require.Zero(t, relock.Token(ctx))
		require.Nil(t, relock.HoldOf(ctx))
		ours := !strings.HasSuffix(k.name, "stranger") || k.name == "Group with a stranger"
		var inside context.Context
		var token int64
		ctx = context.WithValue(ctx, traffic{}, "value")
		require.ErrorIs(t, relock.Do(ctx, l, func(ctx context.Context) error {
			h := relock.HoldOf(ctx)
			inside, token = ctx, relock.Token(ctx)
			require.NoError(t, ctx.Err())
			require.Equal(t, "value", ctx.Value(traffic{}))
			require.Equal(t, k.fenced, token > 0)
			require.Equal(t, token, h.Token())
			require.Equal(t, ours, h != nil)
			if ours {
				require.NoError(t, h.Err())
				require.False(t, kit.IsClosed(h.Done()))
				require.Contains(t, h.Name(), k.name)
				require.ErrorIs(t, l.Err(), relock.ErrNotHeld, "it is not of the handle")
				require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrNotHeld)
			} else {
				require.NoError(t, l.Err())
			}
			at, ok := h.Deadline()
			require.Equal(t, known, ok)
			if ok {
				require.WithinDuration(t, time.Now().Add(30*time.Second), at, 20*time.Second)
			}
			inner := s.Mutex(k.name + " within")
			time.Sleep(2 * time.Millisecond) // tokens of different locks may be equal within a millisecond
			require.NoError(t, relock.Do(ctx, inner, func(ctx context.Context) error {
				require.Equal(t, inner.Name(), relock.HoldOf(ctx).Name())
				require.NotZero(t, relock.Token(ctx))
				require.NotEqual(t, token, relock.Token(ctx))
				return relock.Do(ctx, stranger{s.Mutex(k.name + " within that")}, func(ctx context.Context) error {
					require.Nil(t, relock.HoldOf(ctx), "the innermost is of another package")
					require.Zero(t, relock.Token(ctx))
					return nil
				})
			}))
			require.Equal(t, token, relock.Token(ctx))
			require.Same(t, h, relock.HoldOf(ctx))
			return errOwn
		}), errOwn)
		h := relock.HoldOf(inside)
		require.Equal(t, token, relock.Token(inside))
		require.Equal(t, token, h.Token())
		_, ok := h.Deadline()
		require.False(t, ok, "the hold has ended")
		require.ErrorIs(t, h.Err(), relock.ErrNotHeld)
		require.ErrorIs(t, h.Unlock(ctx), relock.ErrNotHeld)
		require.True(t, kit.IsClosed(h.Done()))
		require.ErrorIs(t, l.Err(), relock.ErrNotHeld)
		require.ErrorIs(t, inside.Err(), context.Canceled, "the context ends with the function")
		require.NotErrorIs(t, context.Cause(inside), relock.ErrLost)
	})
}

func TestDoThatLosesItsHold(t *testing.T) {
	eachDo(t, func(t *testing.T, ctx context.Context, s *relock.Session, k *kind, _ bool) {
		var end context.CancelFunc
		for what, f := range map[string]struct {
			result func(ctx context.Context) error
			own    bool
			wraps  bool // the context's error, in another one
		}{
			"nil":            {func(context.Context) error { return nil }, false, false},
			"its context's":  {context.Context.Err, false, false},
			"the cause":      {context.Cause, false, false},
			"one of its own": {func(context.Context) error { return errOwn }, true, false},
			"that and Err":   {func(ctx context.Context) error { return errors.Join(ctx.Err(), errOwn) }, true, true},
			"Err, wrapped":   {func(ctx context.Context) error { return fmt.Errorf("query: %w", ctx.Err()) }, false, true},
			"cause, wrapped": {func(ctx context.Context) error { return fmt.Errorf("query: %w", context.Cause(ctx)) }, false, false},
			"caller's Err":   {func(ctx context.Context) error { end(); return ctx.Err() }, false, true},
			"that and cause": {func(ctx context.Context) error { return errors.Join(context.Cause(ctx), errOwn) }, true, false},
		} {
			var callers context.Context
			callers, end = context.WithCancel(ctx)
			err := relock.Do(callers, k.on(s, k.name), func(ctx context.Context) error {
				token := relock.Token(ctx)
				was, err := s.ForceUnlock(kit.Background, k.name)
				require.NoError(t, err)
				require.True(t, was)
				kit.Receive(t, ctx.Done(), "the context to end")
				require.ErrorIs(t, context.Cause(ctx), relock.ErrLost)
				if !strings.Contains(k.name, "stranger") { // which does not tell why
					why := context.Cause(ctx) // a renewal may be first to find out
					require.True(t, errors.Is(why, relock.ErrForced) || errors.Is(why, relock.ErrGone), "%v", why)
				}
				require.Equal(t, token, relock.Token(ctx))
				_, ok := relock.HoldOf(ctx).Deadline()
				require.False(t, ok)
				return f.result(ctx)
			})
			end()
			require.ErrorIs(t, err, relock.ErrLost, what)
			require.Equal(t, f.wraps, errors.Is(err, context.Canceled), what)
			require.Equal(t, f.own, errors.Is(err, errOwn), what)
			require.NotContains(t, err.Error(), "\n", what)
			require.True(t, strings.HasPrefix(err.Error(), "relock: "), "%s: %v", what, err)
		}
	})
}

func TestTryDoOfEveryLock(t *testing.T) {
	eachDo(t, func(t *testing.T, ctx context.Context, s *relock.Session, k *kind, _ bool) {
		l := k.on(s, k.name)
		calls := 0
		f := func(context.Context) error { calls++; return errOwn }
		var taken relock.Locker = s.Mutex(k.name)
		if k.name == "Semaphore" {
			taken = k.on(s, k.name)
		}
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

// The token that the store checks is that of the hold that went with the work, although it was lost at once
// and another owner has a newer hold through the same handle.
func TestTokenIsThatOfDosOwnHold(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s := kit.NewSession(t, at)
		m, other := s.Mutex("lock"), s.NewContext(kit.Background)
		for _, ctx := range []context.Context{kit.Background, s.NewContext(kit.Background)} {
			err := relock.Do(ctx, m, func(ctx context.Context) error {
				token, h := relock.Token(ctx), relock.HoldOf(ctx)
				require.NotZero(t, token)
				_, err := s.ForceUnlock(kit.Background, "lock")
				require.NoError(t, err)
				kit.Receive(t, ctx.Done(), "the loss")
				kit.Lock(t, other, m)
				require.Equal(t, token, relock.Token(ctx))
				require.Equal(t, token, h.Token())
				require.Greater(t, m.FencingToken(), token)
				_, ok := h.Deadline()
				require.False(t, ok)
				return context.Cause(ctx)
			})
			require.ErrorIs(t, err, relock.ErrLost)
			require.NoError(t, m.Err())
			kit.Unlock(t, other, m)
		}
	})
}

// counting is a wrapper that embeds a lock of this package, and counts.
type counting struct {
	*relock.Mutex
	locks, unlocks atomic.Int32
}

func (l *counting) Lock(ctx context.Context) error {
	l.locks.Add(1)
	return l.Mutex.Lock(ctx)
}

func (l *counting) TryLock(ctx context.Context) (bool, error) {
	l.locks.Add(1)
	return l.Mutex.TryLock(ctx)
}

func (l *counting) Unlock(ctx context.Context) error {
	l.unlocks.Add(1)
	return l.Mutex.Unlock(ctx)
}

// A wrapper has methods of its own, although it has Acquire as well.
func TestWrapperIsLockedByItsOwnMethods(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s := kit.NewSession(t, at)
		nothing := func(context.Context) error { return nil }
		for what, use := range map[string]func(l *counting) error{
			"Do":      func(l *counting) error { return relock.Do(kit.Background, l, nothing) },
			"DoValue": func(l *counting) error { return valueOf(l, nothing) },
			"TryDo":   func(l *counting) error { _, err := relock.TryDo(kit.Background, l, nothing); return err },
			"a Group": func(l *counting) error { return relock.Do(kit.Background, relock.NewGroup(l), nothing) },
		} {
			l := &counting{Mutex: s.Mutex("lock")}
			require.NoError(t, use(l), what)
			require.EqualValues(t, 1, l.locks.Load(), what)
			require.EqualValues(t, 1, l.unlocks.Load(), what)
			require.ErrorIs(t, l.Err(), relock.ErrNotHeld, what)
		}
	})
}

func valueOf(l relock.Locker, f func(ctx context.Context) error) error {
	_, err := relock.DoValue(kit.Background, l, func(ctx context.Context) (bool, error) { return true, f(ctx) })
	return err
}

func TestDoValueReturnsWhatTheFunctionDoes(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s := kit.NewSession(t, at)
		m := s.Mutex("lock")
		v, err := relock.DoValue(kit.Background, m, func(context.Context) (string, error) { return "value", nil })
		require.NoError(t, err)
		require.Equal(t, "value", v)
		v, err = relock.DoValue(kit.Background, m, func(context.Context) (string, error) { return "part", errOwn })
		require.Equal(t, errOwn, err)
		require.Equal(t, "part", v)
		v, err = relock.DoValue(kit.Background, m, func(ctx context.Context) (string, error) {
			require.Equal(t, "lock", relock.HoldOf(ctx).Name())
			_, err := s.ForceUnlock(kit.Background, "lock")
			require.NoError(t, err)
			kit.Receive(t, ctx.Done(), "the loss")
			return "made under a lost lock", nil
		})
		require.ErrorIs(t, err, relock.ErrLost)
		require.Equal(t, "made under a lost lock", v)
		called := func(context.Context) (string, error) { t.Error("called"); return "value", nil }
		v, err = relock.DoValue(kit.Cancelled(), m, called)
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, v)
		v, err = relock.DoValue(kit.Background, nil, called)
		require.ErrorContains(t, err, "relock: DoValue: the Locker is nil")
		require.Zero(t, v)
		_, err = relock.DoValue[string](kit.Background, m, nil)
		require.ErrorContains(t, err, "relock: DoValue: the function is nil")
		require.NoError(t, tryFor(t, kit.Background, m))
	})
}

// The function may end Do's hold itself. Then Do has nothing to unlock, and nothing to say of it.
func TestFunctionThatEndsDosHold(t *testing.T) {
	eachOf(t, func(t *testing.T, k *kind) {
		ss := k.sessions(t)
		for _, ctx := range []context.Context{kit.Background, ss[0].NewContext(kit.Background)} {
			for _, result := range []error{nil, errOwn} {
				require.Equal(t, result, relock.Do(ctx, k.of(ss, "lock"), func(ctx context.Context) error {
					h := relock.HoldOf(ctx)
					require.NoError(t, h.Unlock(ctx))
					require.ErrorIs(t, h.Unlock(ctx), relock.ErrNotHeld)
					require.ErrorIs(t, h.Err(), relock.ErrNotHeld)
					require.True(t, kit.IsClosed(h.Done()))
					next := k.of(ss, "lock")
					require.NoError(t, tryFor(t, ctx, next), "it is free, for the same function too")
					kit.Lock(t, kit.Background, next) // which Do does not end
					defer kit.Unlock(t, kit.Background, next)
					return result
				}))
			}
			require.ErrorIs(t, relock.Do(ctx, k.of(ss, "lock"), func(ctx context.Context) error {
				h := relock.HoldOf(ctx)
				for _, s := range ss {
					_, err := s.ForceUnlock(kit.Background, "lock")
					require.NoError(t, err)
				}
				kit.Receive(t, ctx.Done(), "the loss")
				return h.Unlock(ctx)
			}), relock.ErrLost, "the function's error")
		}
	})
}

func TestFunctionThatHandsDosHoldOff(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s := kit.NewSession(t, at)
		for _, result := range []error{nil, errOwn} {
			var ticket string
			require.Equal(t, result, relock.Do(kit.Background, s.Mutex("lock"), func(ctx context.Context) (err error) {
				ticket, err = relock.HoldOf(ctx).Handoff(ctx, time.Minute)
				require.NoError(t, err)
				return result
			}))
			require.False(t, kit.TryLock(t, kit.Background, s.Mutex("lock")))
			h, err := s.Adopt(kit.Background, ticket)
			require.NoError(t, err)
			require.NoError(t, h.Unlock(kit.Background))
		}
		for _, l := range []relock.Locker{s.FairMutex("other"), relock.NewGroup(s.Mutex("other"))} { // it ends what it refuses
			require.NoError(t, relock.Do(kit.Background, l, func(ctx context.Context) error {
				_, err := relock.HoldOf(ctx).Handoff(ctx, time.Minute)
				require.ErrorIs(t, err, relock.ErrOption)
				return nil
			}))
			require.True(t, kit.TryLock(t, kit.Background, l))
			kit.Unlock(t, kit.Background, l)
		}
	})
}

// Do costs no goroutine, whatever waits and runs.
func TestDoStartsNoGoroutine(t *testing.T) {
	s := kit.NewSession(t, redistest.Start(t), relock.WithLease(10*time.Minute))
	readers, sem := s.RWMutex("readers"), s.Semaphore("permits", 500)
	for _, c := range []struct {
		what string
		n    int
		of   func(i int) relock.Locker
	}{
		{"names", 10_000, func(i int) relock.Locker { return s.Mutex(fmt.Sprint("lock", i)) }},
		{"readers", 10_000, func(int) relock.Locker { return readers.RLocker() }},
		{"permits", 500, func(int) relock.Locker { return sem }},
		{"groups", 500, func(i int) relock.Locker {
			return relock.NewGroup(s.Mutex(fmt.Sprint("a", i)), s.Mutex(fmt.Sprint("b", i)))
		}},
	} {
		require.NoError(t, relock.Do(kit.Background, c.of(0), func(context.Context) error { return nil }))
		before := runtime.NumGoroutine()
		var in atomic.Int64
		leave := make(chan struct{})
		ended := kit.Async(func() error {
			return kit.Together(c.n, func(i int) error {
				return relock.Do(kit.Background, c.of(i), func(ctx context.Context) error {
					in.Add(1)
					<-leave
					return ctx.Err()
				})
			})
		})
		leaveOnce := sync.OnceFunc(func() { close(leave) })
		defer leaveOnce()
		redistest.Eventually(t, time.Minute, c.what+": all to be in", func() bool { return in.Load() == int64(c.n) })
		redistest.Eventually(t, kit.Soon, c.what+": no goroutine beside the callers", func() bool {
			return runtime.NumGoroutine()-before-c.n < 20 // the session has some at times
		})
		leaveOnce()
		require.NoError(t, kit.Receive(t, ended, "the calls to end"))
	}
}

func TestDoWithoutTheLockCallsNothing(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s := kit.NewSession(t, at)
		m := s.Mutex("lock")
		called := func(context.Context) error { t.Error("called"); return nil }
		ctx, cancel := context.WithCancelCause(kit.Background)
		cancel(kit.ErrStop)
		wantStopped(t, relock.Do(ctx, m, called), context.Canceled)
		require.ErrorIs(t, relock.Do(kit.Background, s.Mutex(""), called), relock.ErrName)
		require.ErrorContains(t, relock.Do(kit.Background, m, nil), "relock: Do: the function is nil")
		for _, l := range []relock.Locker{nil, (*relock.Mutex)(nil), (*stranger)(nil)} {
			require.ErrorContains(t, relock.Do(kit.Background, l, called), "relock: Do: the Locker is nil")
		}
		require.NoError(t, s.Close(kit.Background))
		require.ErrorIs(t, relock.Do(kit.Background, m, called), relock.ErrClosed)
	})
}

// The caller's context ends while the function runs, or it panics: that is no loss, and the lock is released.
func TestDoUnlocksHoweverTheFunctionEnds(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, client := kit.NewSession(t, at), kit.NewClient(t, at)
		ctx, cancel := context.WithCancelCause(kit.Background)
		err := relock.Do(ctx, s.Mutex("lock"), func(ctx context.Context) error {
			cancel(kit.ErrStop)
			kit.Receive(t, ctx.Done(), "the context to end")
			require.ErrorIs(t, context.Cause(ctx), kit.ErrStop)
			require.True(t, kit.Exists(t, client, "lock"))
			return ctx.Err()
		})
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, relock.ErrLost)
		require.False(t, kit.Exists(t, client, "lock"))
		require.PanicsWithValue(t, "ouch", func() {
			_ = relock.Do(kit.Background, s.Mutex("lock"), func(context.Context) error { panic("ouch") })
		})
		require.False(t, kit.Exists(t, client, "lock"))
	})
}

// Regression: the end of one function ended the hold of another one, which was told that it had lost it. Some
// lock and unlock beside them, and end nobody's hold but their own.
func TestDoEndsItsOwnHold(t *testing.T) {
	t.Parallel()
	for what, o := range map[string][]relock.LockOption{"shared": nil, "fixed": {relock.WithFixedLease(time.Hour)}} {
		for way, of := range map[string]func(s *relock.Session) relock.Locker{
			"reader": func(s *relock.Session) relock.Locker { return s.RWMutex("lock", o...).RLocker() },
			"group": func(s *relock.Session) relock.Locker {
				return relock.NewGroup(relock.NewGroup(s.RWMutex("lock", o...).RLocker()), s.RWMutex("other").RLocker())
			},
		} {
			t.Run(what+" "+way, func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				s, client := kit.NewSession(t, server), kit.NewClient(t, server)
				for _, ends := range [][]int{{0, 1, 2}, {2, 1, 0}} {
					l, inside := of(s), make(chan struct{})
					var results []<-chan error
					var leave []chan struct{}
					run := func() {
						stop := make(chan struct{})
						leave = append(leave, stop)
						results = append(results, kit.Async(func() error {
							return relock.Do(kit.Background, l, func(ctx context.Context) error {
								inside <- struct{}{}
								select {
								case <-stop:
								case <-ctx.Done():
								}
								return context.Cause(ctx)
							})
						}))
						kit.Receive(t, inside, "the function to be called")
					}
					for range ends {
						run()
						kit.Lock(t, kit.Background, l)
					}
					for range ends {
						kit.Unlock(t, kit.Background, l)
					}
					if what == "fixed" { // the leases that later ones have replaced are released in the background
						redistest.Eventually(t, kit.Quickly, "a lease each", func() bool { return len(readLeases(t, client)) == len(ends) })
					}
					for n, i := range ends {
						close(leave[i])
						require.NoError(t, kit.Receive(t, results[i], "the function to return"))
						if what == "fixed" {
							require.Len(t, readLeases(t, client), len(ends)-n-1)
						}
					}
					mustBeQuiet(t, client, "lock", s)

					run() // a loss is told to each
					run()
					_, err := s.ForceUnlock(kit.Background, "lock")
					require.NoError(t, err)
					for _, r := range results[len(ends):] {
						require.ErrorIs(t, kit.Receive(t, r, "the function to return"), relock.ErrLost)
					}
					require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrNotHeld)
				}
			})
		}
	}
}
