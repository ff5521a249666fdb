package virtual_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/memredis"
)

// isUnavailable checks the error of a call for which Redis had no answer.
func isUnavailable(t testing.TB, err error, what ...any) {
	t.Helper()
	require.ErrorIs(t, err, relock.ErrUnavailable, what...)
	require.NotErrorIs(t, err, relock.ErrTaken, what...)
	require.ErrorContains(t, err, "Redis is not available", what...)
	require.NotContains(t, err.Error(), "\n", what...)
}

// absences are the ways in which Redis has no answer for a process: each begins with the call, and
// ends with heal.
var absences = map[string]func(p *process) (heal func()){
	"silent":   (*process).partition,
	"refused":  func(p *process) func() { p.refuse(); return p.heal },
	"LOADING":  refusing("LOADING Redis is loading the dataset in memory"),
	"MISCONF":  refusing("MISCONF Redis is configured to save RDB snapshots"),
	"READONLY": refusing("READONLY You can't write against a read only replica."),
}

// refusing returns an outage in which the servers answer everything that concerns locks with an
// error.
func refusing(text string) func(p *process) func() {
	return func(p *process) func() {
		each := func(f func(string, []string) string) {
			p.networks(func(n *memredis.Process) { n.Server().OnCommand(f) })
		}
		each(func(verb string, _ []string) string {
			if verb == "HELLO" || verb == "CLIENT" || verb == "PING" || verb == "SUBSCRIBE" || verb == "SSUBSCRIBE" {
				return ""
			}
			return text
		})
		return func() { each(func(string, []string) string { return "" }) }
	}
}

// onEachAbsence runs f in a bubble for each type of lock and way to be away.
func onEachAbsence(t *testing.T, f func(t *testing.T, w *world, leave func(p *process) (heal func()))) {
	t.Helper()
	for name, leave := range absences {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, w *world) { f(t, w, leave) })
		})
	}
}

// Every way to lock says that Redis is not available when the caller's context, WithWait, or the
// patience of one attempt has ended. When Redis is back the lock is to be had.
func TestCallsThatEndWithoutAnAnswerAreUnavailable(t *testing.T) {
	onEachAbsence(t, func(t *testing.T, w *world, leave func(p *process) func()) {
		p := w.process()
		heal := leave(p)
		for _, d := range []time.Duration{300 * time.Millisecond, 5 * time.Second, time.Minute} {
			for way, l := range map[string]relock.Locker{"Lock": p.lock(), "Acquire": p.acquirer()} {
				isUnavailable(t, waits(t, l, d), way, d)
			}
			for way, l := range map[string]relock.Locker{
				"Lock": p.lock(relock.WithWait(d)), "Acquire": p.acquirer(relock.WithWait(d)),
			} {
				var err error
				most := d
				if len(w.typ.names) > 1 { // of a Group it bounds the wait for that member, after one attempt
					most += 3 * time.Second
				}
				require.LessOrEqual(t, took(func() { err = l.Lock(background) }), most)
				isUnavailable(t, err, way, "WithWait", d)
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
		}
		for way, l := range map[string]relock.Locker{"TryLock": p.lock(), "TryAcquire": p.acquirer()} {
			ok, err := l.TryLock(background)
			require.False(t, ok)
			isUnavailable(t, err, way)
			ctx, cancel := context.WithTimeout(background, time.Millisecond)
			ok, err = l.TryLock(ctx)
			cancel()
			require.False(t, ok)
			isUnavailable(t, err, way, "with a context that ends")
		}
		heal()
		l := p.lock()
		require.NoError(t, l.Lock(background))
		require.NoError(t, l.Unlock(background))
	})
}

// Calls of one process queue behind the one that asks Redis. Each says the same as that one,
// whichever ends first: nobody has the lock, so far as anybody knows.
func TestCallsBehindOneWithoutAnAnswerAreUnavailable(t *testing.T) {
	onEachAbsence(t, func(t *testing.T, w *world, leave func(p *process) func()) {
		p := w.process()
		heal := leave(p)
		var errs []<-chan error
		for i := range 20 {
			ctx, cancel := context.WithTimeout(background, time.Duration(300-i)*time.Millisecond)
			defer cancel()
			errs = append(errs, begin(ctx, p.lock()))
			time.Sleep(time.Duration(i) * time.Millisecond)
		}
		for i, err := range errs {
			isUnavailable(t, <-err, i)
		}
		heal()
		l := p.lock()
		require.NoError(t, l.Lock(background))
		require.NoError(t, l.Unlock(background))
	})
}

// Redis answers, or has not been asked: then it is not said to be away.
func TestCallsWithAnAnswerAreNotUnavailable(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		here, there := w.process(), w.process()
		holder := there.opposite()
		require.NoError(t, holder.Lock(background))
		for way, l := range map[string]relock.Locker{"Lock": here.lock(), "Acquire": here.acquirer()} {
			err := waits(t, l, 2*time.Second)
			require.ErrorIs(t, err, relock.ErrTaken, way)
			require.NotErrorIs(t, err, relock.ErrUnavailable, way)
		}
		err := here.lock(relock.WithWait(time.Second)).Lock(background)
		require.ErrorIs(t, err, relock.ErrTaken)
		require.NotErrorIs(t, err, relock.ErrUnavailable)
		ok, err := here.lock().TryLock(background)
		require.NoError(t, err)
		require.False(t, ok)
		_, err = here.acquirer().TryLock(background)
		require.NotErrorIs(t, err, relock.ErrUnavailable)
		require.NoError(t, holder.Unlock(background))

		// not asked
		heal := here.partition()
		for _, l := range []relock.Locker{here.lock(), here.acquirer()} {
			err = l.Lock(kit.Cancelled())
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, relock.ErrUnavailable)
			_, err = l.TryLock(kit.Cancelled())
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, relock.ErrUnavailable)
			require.NotErrorIs(t, err, relock.ErrTaken)
		}
		err = here.lock(relock.WithLease(-time.Second)).Lock(background)
		require.ErrorIs(t, err, relock.ErrOption)
		require.NotErrorIs(t, err, relock.ErrUnavailable)
		got := begin(background, here.lock())
		time.Sleep(time.Second)
		for _, s := range here.s {
			ctx, cancel := context.WithTimeout(background, time.Millisecond)
			_ = s.Close(ctx)
			cancel()
		}
		err = <-got
		require.ErrorIs(t, err, relock.ErrClosed)
		require.NotErrorIs(t, err, relock.ErrUnavailable)
		heal()

		// refused for good
		p := w.process()
		p.networks(func(n *memredis.Process) { n.Server().FailScripts("NOPERM this user has no permissions") })
		for _, l := range []relock.Locker{p.lock(), p.acquirer()} {
			err = l.Lock(background)
			require.ErrorContains(t, err, "NOPERM")
			require.NotErrorIs(t, err, relock.ErrUnavailable)
			_, err = l.TryLock(background)
			require.ErrorContains(t, err, "NOPERM")
			require.NotErrorIs(t, err, relock.ErrUnavailable)
		}
	})
}

// Inspect, ForceUnlock and Adopt tell as Lock does whether Redis has answered.
func TestCallsOnNamesAreUnavailable(t *testing.T) {
	for name, leave := range absences {
		t.Run(name, func(t *testing.T) {
			onMutex(t, func(t *testing.T, w *world) {
				p := w.process()
				h := kit.Acquire(t, background, p.lock())
				ticket, err := h.Handoff(background, time.Hour)
				require.NoError(t, err)
				s := p.s[0]
				calls := map[string]func(ctx context.Context, name string) error{
					"Inspect": func(ctx context.Context, name string) error { _, err := s.Inspect(ctx, name); return err },
					"ForceUnlock": func(ctx context.Context, name string) error {
						_, err := s.ForceUnlock(ctx, name)
						return err
					},
					"Adopt": func(ctx context.Context, _ string) error { _, err := s.Adopt(ctx, ticket); return err },
				}
				heal := leave(p)
				for call, f := range calls {
					for _, d := range []time.Duration{300 * time.Millisecond, 5 * time.Second} {
						ctx, cancel := context.WithTimeout(background, d)
						isUnavailable(t, f(ctx, "b"), call, d)
						cancel()
					}
					err := f(kit.Cancelled(), "b")
					require.ErrorIs(t, err, context.Canceled, call)
					require.NotErrorIs(t, err, relock.ErrUnavailable, call)
					if call != "Adopt" {
						err = f(background, "")
						require.ErrorIs(t, err, relock.ErrName, call)
						require.NotErrorIs(t, err, relock.ErrUnavailable, call)
						isUnavailable(t, f(background, "b"), call, "by a bound of its own")
					}
				}
				_, err = s.Adopt(background, ticket, relock.WithWait(time.Second))
				isUnavailable(t, err)
				heal()
				require.NoError(t, s.Close(background))
				for call, f := range calls {
					err := f(background, "b")
					require.ErrorIs(t, err, relock.ErrClosed, call)
					require.NotErrorIs(t, err, relock.ErrUnavailable, call)
				}
			})
		})
	}
}

// NewSession says whether Redis did not answer, or has refused for good.
func TestNewSessionIsUnavailable(t *testing.T) {
	t.Parallel()
	away := map[string]func(n *memredis.Process){
		"silent":  func(n *memredis.Process) { n.Cut() },
		"refused": down,
	}
	for _, text := range []string{"LOADING Redis is loading the dataset", "MISCONF cannot save", "READONLY of a replica"} {
		away[text] = func(n *memredis.Process) { n.Server().FailScripts(text) }
	}
	for name, leave := range away {
		for _, d := range []time.Duration{300 * time.Millisecond, 5 * time.Second, time.Minute} {
			t.Run(fmt.Sprint(name, " ", d), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					n := stranger(t)
					client := clientOf(t, n)
					leave(n)
					ctx, cancel := context.WithTimeout(background, d)
					defer cancel()
					_, err := relock.NewSession(ctx, client)
					isUnavailable(t, err)
					n.Heal()
				})
			})
		}
	}
	t.Run("for good", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			n := stranger(t)
			client := clientOf(t, n)
			_, err := relock.NewSession(kit.Cancelled(), client)
			require.ErrorIs(t, err, context.Canceled)
			n.Server().FailScripts("NOPERM this user has no permissions")
			_, err = relock.NewSession(background, client)
			require.ErrorContains(t, err, "NOPERM")
			require.NotErrorIs(t, err, relock.ErrUnavailable)
			_, err = relock.NewSession(background, client, relock.WithReplicas(0, time.Second))
			require.ErrorIs(t, err, relock.ErrOption)
			require.NotErrorIs(t, err, relock.ErrUnavailable)
			require.NotErrorIs(t, err, relock.ErrReplicas)
		})
	})
}

// Connections are refused while goroutines try again and again: nothing was sent, so nothing has to
// be released once Redis is back.
func TestRefusedCallsCostNothingAfterwards(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		p.refuse()
		for range 200 {
			ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
			ok, _ := p.lock().TryLock(ctx)
			require.False(t, ok)
			require.Error(t, p.lock().Lock(ctx))
			cancel()
		}
		var scripts atomic.Int64
		p.onScripts(func() string { scripts.Add(1); return "" })
		p.heal()
		time.Sleep(time.Minute)
		require.LessOrEqual(t, scripts.Load(), int64(20))
	})
}
