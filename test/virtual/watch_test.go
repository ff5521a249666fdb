package virtual_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/memredis"
)

// A view is one thing that Watch yields.
type view struct {
	st  relock.State
	err error
}

// watch follows a lock until ctx ends. ended is closed when the loop has ended.
func watch(ctx context.Context, s *relock.Session, name string) (views <-chan view, ended <-chan struct{}) {
	c, end := make(chan view, 1000), make(chan struct{})
	go func() {
		defer close(end)
		for st, err := range s.Watch(ctx, name) {
			c <- view{st, err}
		}
	}()
	return c, end
}

// A follower sees the state at once, then each new holder and the end of each, and nothing in between, however long
// that is. When its context ends so does the loop, without an error.
func TestWatchTellsOfEachHolder(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		leader, follower := w.process(), w.process()
		time.Sleep(time.Minute)
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		views, ended := watch(ctx, follower.s[0], "a")
		next := func(what string, mode relock.Mode) relock.State {
			t.Helper()
			time.Sleep(2 * time.Second)
			synctest.Wait()
			require.Len(t, views, 1, what)
			v := <-views
			require.NoError(t, v.err)
			require.Equal(t, mode, v.st.Mode, what)
			return v.st
		}
		next("the state now", relock.Unlocked)
		mode := relock.Exclusive
		if w.typ.name == "reader" || w.typ == semaphore {
			mode = relock.Shared
		}
		var last relock.State
		for range 3 {
			l := leader.held()
			st := next("a holder", mode)
			require.Len(t, st.Holders, 1)
			require.Equal(t, leader.s[0].ID(), st.Holders[0].Session)
			require.NotEqual(t, last.Holders, st.Holders)
			if w.exclusive() {
				require.Greater(t, st.Token, last.Token)
			}
			last = st
			time.Sleep(time.Minute)
			require.Empty(t, views, "while the same one holds it")
			require.NoError(t, l.Unlock(background))
			next("its end", relock.Unlocked)
			time.Sleep(time.Minute)
			require.Empty(t, views, "while nobody holds it")
		}
		cancel()
		<-ended
		require.Empty(t, views)
	})
}

// Errors of Redis are told, one for each request, and the loop goes on: with what has changed meanwhile, or with nothing.
func TestWatchOutlivesErrors(t *testing.T) {
	for name, leave := range absences {
		t.Run(name, func(t *testing.T) {
			onMutex(t, func(t *testing.T, w *world) {
				p, other := w.process(), w.process()
				ctx, cancel := context.WithCancel(background)
				defer cancel()
				views, ended := watch(ctx, p.s[0], "a")
				synctest.Wait()
				require.NoError(t, (<-views).err)
				away := func(d time.Duration) {
					heal := leave(p)
					time.Sleep(d)
					heal()
					time.Sleep(10 * time.Second)
					synctest.Wait()
				}
				errs := func() {
					t.Helper()
					require.NotEmpty(t, views)
					for range len(views) {
						v := <-views
						isUnavailable(t, v.err)
						require.Equal(t, relock.State{}, v.st)
					}
				}
				away(20 * time.Second)
				errs() // and not the state, which is the same
				l := kit.Acquire(t, background, other.lock())
				time.Sleep(2 * time.Second)
				require.Equal(t, l.Token(), (<-views).st.Token)
				away(20 * time.Second)
				errs()
				cancel()
				<-ended
				require.Empty(t, views)
				require.NoError(t, l.Unlock(background))
			})
		})
	}
}

// A key that is not a lock is yielded as an error, and does not end the loop either.
func TestWatchOutlivesAKeyThatIsNoLock(t *testing.T) {
	onMutex(t, func(t *testing.T, w *world) {
		p := w.process()
		w.do("SET", "a", "x")
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		views, _ := watch(ctx, p.s[0], "a")
		require.ErrorIs(t, (<-views).err, relock.ErrNotLock)
		w.do("DEL", "a")
		for v := range views {
			if v.err == nil {
				require.Equal(t, relock.State{}, v.st)
				return
			}
			require.ErrorIs(t, v.err, relock.ErrNotLock)
		}
	})
}

// A bad name and the end of the session end the loop, and say so once; whatever the loop does then.
func TestWatchEndsWithItsSession(t *testing.T) {
	onMutex(t, func(t *testing.T, w *world) {
		p := w.process()
		last := func(name string) (v view, n int) {
			for st, err := range p.s[0].Watch(background, name) {
				v, n = view{st, err}, n+1
			}
			return v, n
		}
		for _, name := range []string{"", "{}", "a{"} {
			v, n := last(name)
			require.Equal(t, 1, n)
			require.ErrorIs(t, v.err, relock.ErrName)
			require.Equal(t, relock.State{}, v.st)
		}
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				v, n := last("a")
				require.Equal(t, 2, n)
				require.ErrorIs(t, v.err, relock.ErrClosed)
				require.NotErrorIs(t, v.err, relock.ErrUnavailable)
				require.Equal(t, relock.State{}, v.st)
			})
		}
		time.Sleep(1500 * time.Millisecond)
		start := time.Now()
		require.NoError(t, p.s[0].Close(background))
		all.Wait()
		require.Equal(t, start, time.Now(), "at once")
		v, n := last("a")
		require.Equal(t, 1, n)
		require.ErrorIs(t, v.err, relock.ErrClosed)
	})
}

// The loop ends at once with its context, also during a request that Redis does not answer, and with a break. One that
// has ended before yields nothing.
func TestWatchEndsWithItsContext(t *testing.T) {
	onMutex(t, func(t *testing.T, w *world) {
		p := w.process()
		for st, err := range p.s[0].Watch(kit.Cancelled(), "a") {
			t.Fatal(st, err)
		}
		ctx, cancel := context.WithTimeout(background, 10*time.Second)
		defer cancel()
		views, ended := watch(ctx, p.s[0], "a")
		time.Sleep(9500 * time.Millisecond)
		require.Len(t, views, 1)
		heal := p.partition()
		start := time.Now()
		<-ended
		require.Equal(t, 500*time.Millisecond, time.Since(start))
		require.Len(t, views, 1, "an error of its own")
		heal()
		var asked atomic.Int32
		p.networks(func(n *memredis.Process) {
			n.Server().OnCommand(func(_ string, args []string) string {
				if slices.Contains(args, "a") {
					asked.Add(1)
				}
				return ""
			})
		})
		n := 0
		for range p.s[0].Watch(background, "a") {
			n++
			break
		}
		require.Equal(t, 1, n)
		synctest.Wait()
		require.Positive(t, asked.Swap(0))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.Zero(t, asked.Load(), "after a break")
	})
}
