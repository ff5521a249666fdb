package virtual_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/memredis"
)

// A later process has sessions that start in the background.
type later struct {
	*process
	nets []*memredis.Process
	back func() // ends what keeps them from starting
}

// later returns a process whose sessions begin to start once away has befallen their networks.
func (w *world) later(away func(*memredis.Process) (back func()), opts ...relock.SessionOption) *later {
	w.t.Helper()
	p := &later{process: &process{w: w}, back: func() {}}
	opts = append(opts, relock.WithBackgroundStart())
	for _, r := range w.redis {
		n := memredis.Of(r, r.Session()).Server().Process()
		client := clientOf(w.t, n)
		others, here := p.back, away(n)
		p.back = func() { others(); here() }
		s, err := relock.NewSession(kit.Cancelled(), client, opts...)
		require.NoError(w.t, err)
		w.t.Cleanup(func() {
			n.Heal()
			require.NoError(w.t, s.Close(background))
		})
		p.s, p.nets = append(p.s, s), append(p.nets, n)
	}
	return p
}

// starts are the ways in which a server may be away when a session starts.
var starts = map[string]func(*memredis.Process) (back func()){
	"hang": func(n *memredis.Process) func() { return n.Cut() },
	"down": (*memredis.Process).Refuse,
	"LOADING": func(n *memredis.Process) func() {
		return n.Server().FailScripts("LOADING Redis is loading the dataset in memory")
	},
}

func there(*memredis.Process) func() { return func() {} }

// onEachStart runs f in a bubble for each type of lock, with a process whose servers are away when
// it starts.
func onEachStart(t *testing.T, f func(t *testing.T, w *world, p *later)) {
	t.Helper()
	t.Parallel()
	for what, away := range starts {
		t.Run(what, func(t *testing.T) {
			onEach(t, func(t *testing.T, w *world) { f(t, w, w.later(away)) })
		})
	}
}

// NewSession sends nothing, and its first calls need not know that.
func TestASessionThatStartsInTheBackgroundCanBeUsedAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.later(func(n *memredis.Process) func() {
			n.Delay(20 * time.Millisecond)
			n.Server().OnCommand(func(verb string, _ []string) string {
				t.Error("NewSession has sent ", verb)
				return ""
			})
			return func() { n.Server().OnCommand(func(string, []string) string { return "" }) }
		})
		p.back()
		ok, err := p.lock().TryLock(background)
		require.NoError(t, err)
		require.True(t, ok)
	})
}

// As while Redis does not answer, calls end with ErrUnavailable, at their bounds; and get the lock
// when it is there.
func TestCallsOfASessionThatHasNotStartedAreUnavailable(t *testing.T) {
	onEachStart(t, func(t *testing.T, w *world, p *later) {
		for _, d := range []time.Duration{300 * time.Millisecond, 20 * time.Second} {
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
			require.LessOrEqual(t, took(func() {
				ok, err := l.TryLock(background)
				require.False(t, ok)
				isUnavailable(t, err, way)
			}), 3*time.Second)
		}
		_, err := p.s[0].Inspect(background, "a")
		isUnavailable(t, err)
		_, err = p.s[0].ForceUnlock(background, "a")
		isUnavailable(t, err)
		require.ErrorContains(t, err, "the session has not started")

		var locked []<-chan error
		for range 5 {
			locked = append(locked, lockAndUnlock(p.lock()))
		}
		time.Sleep(time.Minute)
		p.back()
		start := time.Now()
		for _, err := range locked {
			require.NoError(t, <-err)
		}
		require.Less(t, time.Since(start), 10*time.Second)
		l := p.lock()
		ok, err := l.TryLock(background)
		require.NoError(t, err)
		require.True(t, ok)
		time.Sleep(10 * lease)
		require.NoError(t, l.Err(), "it is renewed")
	})
}

// What only people can put right is what every call returns at once; then the session starts.
func TestCallsGetWhatTheCheckOfTheServerHasFound(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		const said = "NOPERM this user has no permissions to run the 'evalsha' command"
		p := w.later(func(n *memredis.Process) func() { return n.Server().FailScripts(said) })
		refused := func(err error) {
			t.Helper()
			require.ErrorContains(t, err, "NOPERM")
			require.NotErrorIs(t, err, relock.ErrUnavailable)
			require.NotErrorIs(t, err, relock.ErrTaken)
		}
		for range 3 {
			refused(p.lock().Lock(background))
			refused(p.acquirer().Lock(background))
			_, err := p.lock().TryLock(background)
			refused(err)
			_, err = p.s[0].Inspect(background, "a")
			refused(err)
			time.Sleep(10 * time.Second)
		}
		// What waits for a server that is away is told as well.
		for _, n := range p.nets {
			n.Refuse()
		}
		time.Sleep(10 * time.Second)
		waiting := begin(background, p.lock())
		time.Sleep(10 * time.Second)
		for _, n := range p.nets {
			n.Heal()
		}
		refused(<-waiting)
		p.back()
		time.Sleep(2 * time.Second)
		l := p.held()
		require.NoError(t, l.Unlock(background))
	})
}

// A session that has not started has nothing to release.
func TestASessionThatHasNotStartedEndsAtOnce(t *testing.T) {
	onEachStart(t, func(t *testing.T, w *world, p *later) {
		var waiting []<-chan error
		for range 3 {
			waiting = append(waiting, begin(background, p.lock()), begin(background, p.acquirer()))
		}
		time.Sleep(time.Minute)
		for i, s := range p.s {
			end := []func(context.Context) error{s.Close, s.Shutdown}[i%2]
			// Nothing ends a dial of rueidis: it is waited for, but not for long.
			require.LessOrEqual(t, took(func() { require.NoError(t, end(background)) }), 2*time.Second)
		}
		for _, err := range waiting {
			require.ErrorIs(t, <-err, relock.ErrClosed)
		}
		p.back()
		_, err := p.lock().TryLock(background)
		require.ErrorIs(t, err, relock.ErrClosed)
	})
	t.Run("at once", func(t *testing.T) {
		onEach(t, func(t *testing.T, w *world) {
			for _, what := range []string{"down", "LOADING"} {
				p := w.later(starts[what])
				waiting := begin(background, p.lock())
				time.Sleep(time.Minute)
				require.Zero(t, took(func() {
					for _, s := range p.s {
						require.NoError(t, s.Shutdown(background))
					}
					require.ErrorIs(t, <-waiting, relock.ErrClosed)
				}))
				p.back()
			}
		})
	})
}

// The lock is on a majority, and on the others once their servers are there; then any majority will
// do.
func TestRedlockStartsWithAMajority(t *testing.T) {
	t.Parallel()
	for what, away := range starts {
		t.Run(what, func(t *testing.T) {
			alone(t, redlock, func(t *testing.T, w *world) {
				p := w.later(there)
				third := w.one(2).later(away) // another session of that server
				p.s[2] = third.s[0]
				for range 3 { // of which two are a majority
					l := p.lock()
					ok, err := l.TryLock(background)
					require.NoError(t, err)
					require.True(t, ok)
					require.Equal(t, 2, w.holders())
					require.NoError(t, l.Unlock(background))
				}
				l := p.held()
				time.Sleep(2 * lease)
				require.NoError(t, l.Err())
				third.back()
				time.Sleep(lease)
				require.Equal(t, 3, w.holders(), "taken where it was not")
				p.nets[0].Refuse()
				time.Sleep(10 * lease)
				require.NoError(t, l.Err())
				require.NoError(t, l.Unlock(background))
				require.NoError(t, p.held().Unlock(background))
				p.nets[1].Refuse()
				ok, err := p.lock().TryLock(background)
				require.False(t, ok)
				isUnavailable(t, err)
			})
		})
	}
}

// Which sessions lead to one server is known once they have started.
func TestSessionsOfOneServerAreFoundOnceTheyHaveStarted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &lockTypes[0])
		n := memredis.Of(w.redis[0], w.redis[0].Session()).Server().Process()
		client := clientOf(t, n)
		n.Refuse()
		var sessions []*relock.Session
		for _, prefix := range []string{"one:", "other:", "other:"} { // with one prefix they would exclude each other
			s, err := relock.NewSession(background, client, relock.WithBackgroundStart(), relock.WithPrefix(prefix))
			require.NoError(t, err)
			sessions = append(sessions, s)
		}
		r := relock.NewRedlock(sessions[:2], "a")
		g := relock.NewGroup(sessions[1].Mutex("a"), sessions[2].Mutex("a"))
		require.ErrorIs(t, r.Unlock(background), relock.ErrNotHeld)
		var waiting []<-chan error
		for _, l := range []relock.Locker{r, g} {
			_, err := l.TryLock(background)
			isUnavailable(t, err)
			waiting = append(waiting, begin(background, l))
		}
		time.Sleep(time.Minute)
		n.Heal()
		require.ErrorIs(t, <-waiting[0], relock.ErrOption)
		time.Sleep(2 * time.Second)
		for _, l := range []relock.Locker{r, g} {
			require.ErrorIs(t, l.Lock(background), relock.ErrOption)
			require.ErrorIs(t, l.Unlock(background), relock.ErrOption)
		}
		for _, s := range sessions {
			require.NoError(t, s.Close(background))
		}
		require.ErrorIs(t, <-waiting[1], relock.ErrClosed)
	})
}
