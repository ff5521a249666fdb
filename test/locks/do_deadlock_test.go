package locks_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// tryFor locks l under ctx within a time that is enough if it can be locked at all.
func tryFor(t testing.TB, ctx context.Context, l relock.Locker) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, kit.Soon)
	defer cancel()
	err := l.Lock(ctx)
	if err == nil {
		kit.Unlock(t, ctx, l)
	}
	return err
}

// Every lock inside every Do of the same name, in the same session and in another one, by
// every owner that is not Do's, is a deadlock; except readers inside readers.
func TestLockInsideDoOfTheSameName(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, other := kit.NewSession(t, server), kit.NewSession(t, server)
	for _, outer := range doKinds {
		if strings.Contains(outer.name, "stranger") {
			continue // Do cannot see into it
		}
		for _, inner := range doKinds {
			name := inner.name + " in " + outer.name
			require.NoError(t, relock.Do(kit.Background, outer.of(s, name), func(ctx context.Context) error {
				for _, by := range []*relock.Session{s, other} {
					l := inner.of(by, name)
					if outer.reads && inner.reads {
						require.NoError(t, tryFor(t, ctx, l), name)
						continue
					}
					require.ErrorIs(t, l.Lock(ctx), relock.ErrDeadlock, name)
					require.ErrorIs(t, l.Lock(by.NewContext(ctx)), relock.ErrDeadlock, name)
					require.ErrorIs(t, l.Lock(context.WithoutCancel(ctx)), relock.ErrDeadlock, name)
					err := relock.Do(ctx, l, func(context.Context) error { t.Error("called"); return nil })
					require.ErrorIs(t, err, relock.ErrDeadlock, name)
					require.False(t, kit.TryLock(t, ctx, l), name)
					ran, err := relock.TryDo(ctx, l, func(context.Context) error { t.Error("called"); return nil })
					require.NoError(t, err, name)
					require.False(t, ran, name)
				}
				require.NoError(t, ctx.Err())
				require.NoError(t, tryFor(t, ctx, inner.of(s, name+", another")), "another name")
				return nil
			}), name)
		}
	}
}

// The owner of a Do enters again what it can; for what it cannot, it would wait for itself.
func TestLockInsideDoByItsOwner(t *testing.T) {
	t.Parallel()
	s := kit.NewSession(t, redistest.Start(t))
	for _, outer := range doKinds[:4] {
		for _, inner := range doKinds[:4] {
			name := inner.name + " in " + outer.name
			var want error
			switch {
			case outer.name == "reader" && inner.name == "writer":
				want = relock.ErrUpgrade
			case outer.name == inner.name || outer.name == "writer" && inner.name == "reader":
			default:
				want = relock.ErrDeadlock
			}
			require.NoError(t, relock.Do(s.NewContext(kit.Background), outer.of(s, name), func(ctx context.Context) error {
				require.ErrorIs(t, tryFor(t, ctx, inner.of(s, name)), want, name)
				return nil
			}))
		}
	}
}

// A Do further out counts as well.
func TestLockInsideDoInsideDo(t *testing.T) {
	t.Parallel()
	s := kit.NewSession(t, redistest.Start(t))
	require.NoError(t, relock.Do(kit.Background, s.Mutex("a"), func(ctx context.Context) error {
		return relock.Do(s.NewContext(ctx), stranger{s.Mutex("b")}, func(ctx context.Context) error {
			return relock.Do(ctx, s.Mutex("c"), func(ctx context.Context) error {
				err := s.Mutex("a").Lock(ctx)
				require.ErrorIs(t, err, relock.ErrDeadlock)
				require.EqualError(t, err, `relock: lock "a": deadlock: a Do around this call holds the lock, and would wait for itself`)
				require.ErrorIs(t, relock.NewGroup(s.Mutex("d"), s.Mutex("a")).Lock(ctx), relock.ErrDeadlock)
				require.NoError(t, tryFor(t, ctx, s.Mutex("d")), "nothing of the group is left")
				return nil
			})
		})
	}))
}

// When Do's hold is over, a call under its context waits for others, as any does.
func TestLockAfterDo(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := kit.NewSession(t, server)
	for _, k := range doKinds {
		var inside context.Context
		require.NoError(t, relock.Do(kit.Background, k.of(s, k.name), func(ctx context.Context) error {
			inside = context.WithoutCancel(ctx)
			return nil
		}))
		require.NoError(t, tryFor(t, inside, k.of(s, k.name)), k.name)
		err := relock.Do(kit.Background, k.of(s, k.name), func(ctx context.Context) error {
			_, err := s.ForceUnlock(kit.Background, k.name)
			require.NoError(t, err)
			kit.Receive(t, ctx.Done(), "the loss")
			require.NoError(t, tryFor(t, context.WithoutCancel(ctx), s.Mutex(k.name)), k.name)
			return nil
		})
		require.ErrorIs(t, err, relock.ErrLost, k.name)
	}
}

// A process that was frozen has lost its hold, though nobody may have noticed yet.
func TestLockInsideDoOfAFrozenProcess(t *testing.T) {
	t.Parallel()
	s := kit.NewSession(t, redistest.Start(t))
	for _, k := range doKinds {
		if !k.deadline {
			continue
		}
		err := relock.Do(kit.Background, k.of(s, k.name), func(ctx context.Context) error {
			peek.Engine(s).Skip(time.Minute)
			require.NoError(t, tryFor(t, context.WithoutCancel(ctx), s.Mutex(k.name)), k.name)
			return nil
		})
		require.ErrorIs(t, err, relock.ErrLost, k.name)
	}
}

// The owner holds on after a Do within. That is no Do's hold any more.
func TestLockAfterADoWhoseOwnerHoldsOn(t *testing.T) {
	t.Parallel()
	s := kit.NewSession(t, redistest.Start(t))
	m, owner := s.Mutex("lock"), s.NewContext(kit.Background)
	kit.Lock(t, owner, m)
	var inside context.Context
	require.NoError(t, relock.Do(owner, m, func(ctx context.Context) error {
		inside = s.NewContext(context.WithoutCancel(ctx))
		require.ErrorIs(t, s.Mutex("lock").Lock(inside), relock.ErrDeadlock)
		return nil
	}))
	waits := kit.Async(func() error { return s.Mutex("lock").Lock(inside) })
	kit.Queued(t, s, "lock", 1)
	kit.Unlock(t, owner, m)
	require.NoError(t, kit.Receive(t, waits, "the other owner to lock"))
}

// A group that has lost one member holds the others until it is unlocked.
func TestLockInsideDoOfAGroupThatIsLost(t *testing.T) {
	t.Parallel()
	s := kit.NewSession(t, redistest.Start(t))
	err := relock.Do(kit.Background, relock.NewGroup(s.Mutex("a"), s.RWMutex("b")), func(ctx context.Context) error {
		_, err := s.ForceUnlock(kit.Background, "a")
		require.NoError(t, err)
		kit.Receive(t, ctx.Done(), "the loss")
		ctx = context.WithoutCancel(ctx)
		require.NoError(t, tryFor(t, ctx, s.Mutex("a")))
		require.ErrorIs(t, s.RWMutex("b").Lock(ctx), relock.ErrDeadlock)
		return nil
	})
	require.ErrorIs(t, err, relock.ErrLost)
}

// The same name somewhere else is another lock: on another server, and in another database
// of the same one, which nothing but the data can tell.
func TestLockOfTheSameNameElsewhere(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, far := kit.NewSession(t, server), kit.NewSession(t, redistest.Start(t))
	second := kit.SessionOn(t, kit.NewClient(t, server, func(o *rueidis.ClientOption) { o.SelectDB = 1 }))
	for _, k := range doKinds {
		require.NoError(t, relock.Do(kit.Background, k.of(s, k.name), func(ctx context.Context) error {
			require.NoError(t, tryFor(t, ctx, k.of(far, k.name)), k.name)
			require.NoError(t, tryFor(t, ctx, k.of(second, k.name)), k.name)
			return nil
		}))
	}
}

// It is the key that counts, with the prefixes of both sessions.
func TestLockOfTheSameKeyByAnotherName(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, prefixed := kit.NewSession(t, server), kit.NewSession(t, server, relock.WithPrefix("lock:"))
	for _, k := range doKinds[:7] {
		require.NoError(t, relock.Do(kit.Background, k.of(prefixed, k.name), func(ctx context.Context) error {
			require.NoError(t, tryFor(t, ctx, k.of(s, k.name)), k.name)
			if !k.reads {
				require.ErrorIs(t, k.of(s, "lock:"+k.name).Lock(ctx), relock.ErrDeadlock, k.name)
				require.ErrorIs(t, k.of(prefixed, k.name).Lock(ctx), relock.ErrDeadlock, k.name)
			}
			return nil
		}))
	}
}

// A Redlock needs a majority: it waits for itself only if Dos leave none.
func TestRedlockInsideDoOfSomeOfItsDeployments(t *testing.T) {
	t.Parallel()
	var ss []*relock.Session
	for range 3 {
		ss = append(ss, kit.NewSession(t, redistest.Start(t)))
	}
	require.NoError(t, relock.Do(kit.Background, ss[0].Mutex("lock"), func(ctx context.Context) error {
		require.NoError(t, tryFor(t, ctx, relock.NewRedlock(ss, "lock")))
		return relock.Do(ctx, ss[1].FairMutex("lock"), func(ctx context.Context) error {
			require.ErrorIs(t, relock.NewRedlock(ss, "lock").Lock(ctx), relock.ErrDeadlock)
			return nil
		})
	}))
	require.NoError(t, relock.Do(kit.Background, relock.NewRedlock(ss, "lock"), func(ctx context.Context) error {
		require.ErrorIs(t, relock.NewRedlock(ss, "lock").Lock(ctx), relock.ErrDeadlock)
		require.NoError(t, tryFor(t, ctx, relock.NewRedlock(ss, "another")))
		return nil
	}))
}

// A writer waits for the Do that reads. A reader inside it does not wait behind that writer.
func TestReaderInsideDoThatReadsWhileAWriterWaits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for who, opts := range map[string][]relock.SessionOption{
		"unobserved": nil, "observed": {relock.WithObserver(relock.NopObserver{})},
	} {
		s, other := kit.NewSession(t, server, opts...), kit.NewSession(t, server)
		for what, by := range map[string]*relock.Session{"near": s, "far": other} {
			name := who + " " + what
			rw := s.RWMutex(name)
			var written <-chan error
			require.NoError(t, relock.Do(kit.Background, rw.RLocker(), func(ctx context.Context) error {
				written = kit.Async(func() error { return tryFor(t, kit.Background, by.RWMutex(name)) })
				redistest.Eventually(t, kit.Soon, "the writer to keep readers out", func() bool {
					r := s.RWMutex(name).RLocker()
					if !kit.TryLock(t, kit.Background, r) {
						return true
					}
					kit.Unlock(t, kit.Background, r)
					return false
				})
				for _, ctx := range []context.Context{ctx, s.NewContext(ctx)} {
					require.NoError(t, tryFor(t, ctx, rw.RLocker()))
					require.NoError(t, tryFor(t, ctx, s.RWMutex(name).RLocker()))
				}
				return relock.Do(ctx, rw.RLocker(), func(context.Context) error { return nil })
			}))
			require.NoError(t, kit.Receive(t, written, "the writer to have written"))
		}
	}
}
