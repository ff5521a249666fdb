package virtual_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/memredis"
	"github.com/relock-go/relock/internal/peek"
)

var keeps = relock.WithKeep(time.Hour)

// onKept runs f in a bubble for a Mutex.
func onKept(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	alone(t, &lockTypes[0], f)
}

// pair locks and unlocks l, and returns the token.
func pair(t testing.TB, l *relock.Mutex) int64 {
	t.Helper()
	require.NoError(t, l.Lock(background))
	token := l.FencingToken()
	require.NoError(t, l.Unlock(background))
	require.ErrorIs(t, l.Err(), relock.ErrNotHeld)
	return token
}

// keptBy returns a Mutex "a" of the process that keeps its lock and has the tokens to take it again.
func (p *process) keptBy(o ...relock.LockOption) *relock.Mutex {
	p.w.t.Helper()
	l := p.s[0].Mutex("a", append(o, keeps)...)
	for range 2 { // the first token of a name is alone
		pair(p.w.t, l)
		time.Sleep(10 * time.Millisecond)
	}
	require.False(p.w.t, p.w.free())
	return l
}

func TestKeptLockIsTakenAgainWithoutRedis(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		p := w.process()
		l := p.keptBy()
		p.delay(time.Second)
		last := int64(0)
		start := time.Now()
		for range 1000 {
			token := pair(t, l)
			require.Greater(t, token, last)
			last = token
		}
		require.Zero(t, time.Since(start))
		require.Greater(t, pair(t, p.s[0].Mutex("a", keeps)), last, "through another handle")
		require.NoError(t, relock.Do(background, l, func(ctx context.Context) error {
			require.Greater(t, relock.Token(ctx), last)
			return nil
		}))
		require.Zero(t, time.Since(start))

		p.heal()
		for range 100 { // the block is used up
			token := pair(t, l)
			require.Greater(t, token, last)
			last = token
		}
		state, err := p.s[0].Inspect(background, "a")
		require.NoError(t, err)
		require.Equal(t, relock.Exclusive, state.Mode)
	})
}

// A lock is kept if the session had it the last two times, or nobody had it lately: not between processes that take
// turns, whatever the time in between, and again soon after another process has wanted it once.
func TestLockIsKeptFromTheSecondTimeInARow(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		l, by := p.s[0].Mutex("b", keeps), other.s[0].Mutex("b", keeps)
		var scripts atomic.Int64
		memredis.Of(w.redis[0], p.s[0]).Server().OnCommand(func(verb string, _ []string) string {
			if strings.HasPrefix(verb, "EVAL") {
				scripts.Add(1)
			}
			return ""
		})
		uses := func(m *relock.Mutex, cost int64, kept bool) {
			t.Helper()
			scripts.Store(0)
			pair(t, m)
			time.Sleep(10 * time.Millisecond) // the first tokens of a name, and of a millisecond, are alone
			require.Equal(t, cost, scripts.Load())
			require.Equal(t, kept, w.has("b"))
		}
		again := func() {
			t.Helper()
			uses(l, 2, false)
			uses(l, 1, true)
			for range 100 {
				uses(l, 0, true)
			}
		}
		uses(l, 1, true) // nobody had it lately
		uses(l, 2, true) // its token was alone: it is released, and acquired
		uses(l, 0, true)
		pair(t, by)
		require.False(t, w.has("b"), "granted by a release")
		for i := range 20 { // in turns
			time.Sleep(time.Duration(i%3) * 20 * time.Second)
			uses(l, 2, false)
			uses(by, 2, false)
		}
		again()
		pair(t, by) // wants it once
		require.False(t, w.has("b"))
		again()
		h, err := l.Acquire(background) // wanted while it is used
		require.NoError(t, err)
		waits := lockAndUnlock(by)
		<-h.Wanted()
		require.NoError(t, h.Unlock(background))
		require.NoError(t, <-waits)
		require.False(t, w.has("b"))
		again()
		time.Sleep(2 * time.Hour) // its time is over, and nobody has had it lately
		require.False(t, w.has("b"))
		uses(by, 1, true)
	})
}

func TestKeptLockIsReleasedWhenItsTimeIsOver(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		p := w.process()
		l := p.keptBy()
		for range 3 {
			time.Sleep(40 * time.Minute)
			require.False(t, w.free(), "used meanwhile")
			pair(t, l)
		}
		time.Sleep(time.Hour - time.Second)
		require.False(t, w.free())
		time.Sleep(2 * time.Second)
		require.True(t, w.free())
		pair(t, l)
		require.False(t, w.free())
	})
}

func TestKeptLockIsRecalledByOneMessageAndOneRelease(t *testing.T) {
	const way = 20 * time.Millisecond
	onKept(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		p.keptBy()
		p.delay(way)
		other.delay(way)
		require.Equal(t, 4*way, took(func() {
			require.NoError(t, other.s[0].Mutex("a").Lock(background))
		}), "request, message, release, grant")
	})
}

func TestKeptLockExcludes(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		l := p.keptBy()
		var held int
		var all []<-chan error
		for range 20 {
			for _, m := range []*relock.Mutex{l, p.s[0].Mutex("a", keeps), other.s[0].Mutex("a", keeps), other.s[0].Mutex("a")} {
				all = append(all, kit.Async(func() error {
					return relock.Do(background, m, func(context.Context) error {
						held++
						before := held
						time.Sleep(time.Millisecond)
						require.Equal(t, before, held)
						return nil
					})
				}))
				time.Sleep(300 * time.Microsecond)
			}
		}
		for _, one := range all {
			require.NoError(t, <-one)
		}
		require.Equal(t, 80, held)
	})
}

// The request of a TryLock with WithKeep recalls the lock, whose release grants it.
func TestTryLockGetsAKeptLock(t *testing.T) {
	const way = 20 * time.Millisecond
	onKept(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		l, by := p.keptBy(), other.s[0].Mutex("a", keeps)
		p.delay(way)
		other.delay(way)
		try := func(m *relock.Mutex) (ok bool, d time.Duration) {
			t.Helper()
			d = took(func() {
				var err error
				ok, err = m.TryLock(background)
				require.NoError(t, err)
			})
			return ok, d
		}
		ok, d := try(other.s[0].Mutex("a"))
		require.False(t, ok, "without WithKeep it makes one attempt")
		require.Equal(t, 2*way, d)
		ok, d = try(by)
		require.True(t, ok)
		require.Equal(t, 4*way, d, "request, message, release, grant")
		require.NoError(t, by.Unlock(background))

		p.keptBy()
		memredis.Of(w.redis[0], p.s[0]).LoseMessage("wanted ")
		ok, d = try(by)
		require.False(t, ok, d)
		require.Equal(t, 2*way+250*time.Millisecond, d, "the keeper has not heard it")
		time.Sleep(time.Second)
		require.Zero(t, took(func() { pair(t, l) }))
	})
}

// Loss while it is kept is nobody's: no event, and no error of a later call.
func TestLossWhileKeptIsNobodys(t *testing.T) {
	lose := map[string]func(t *testing.T, w *world, p *process){
		"deleted": func(_ *testing.T, w *world, _ *process) { w.do("DEL", "a") },
		"forced": func(t *testing.T, w *world, _ *process) {
			was, err := w.process().s[0].ForceUnlock(background, "a")
			require.NoError(t, err)
			require.True(t, was)
		},
		"expired": func(_ *testing.T, _ *world, p *process) {
			heal := p.partition()
			time.Sleep(2 * lease)
			heal()
		},
		"restarted": func(_ *testing.T, w *world, _ *process) { w.restart(false) },
	}
	for name, f := range lose {
		t.Run(name, func(t *testing.T) {
			onKept(t, func(t *testing.T, w *world) {
				events := new(losses)
				p := w.process(relock.WithObserver(events))
				l := p.keptBy()
				f(t, w, p)
				time.Sleep(lease/3 + time.Second) // it is renewed
				require.True(t, w.free())
				require.ErrorIs(t, l.Err(), relock.ErrNotHeld)
				require.NotErrorIs(t, l.Err(), relock.ErrLost)
				pair(t, l)
				require.Equal(t, name == "forced", w.free(), "then nobody had it the last time")
				pair(t, l)
				require.Zero(t, events.n)
				require.False(t, w.free())
			})
		})
	}
}

type losses struct {
	relock.NopObserver
	n int
}

func (l *losses) Lost(relock.LostEvent) { l.n++ }

func TestCloseReleasesWhatIsKept(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		events := new(losses)
		p := w.process(relock.WithObserver(events))
		p.keptBy()
		for _, name := range []string{"b", "c", "d"} {
			pair(t, p.s[0].Mutex(name, keeps))
		}
		require.True(t, w.has("a", "b", "c", "d"))
		require.NoError(t, p.s[0].Close(background))
		require.False(t, w.has("a", "b", "c", "d"))
		require.Zero(t, events.n)
	})
}

// The releases of what is kept share pipelines, at Close and when its time is over: the first have one, the others the
// next. Then the label of the session goes.
func TestKeptLocksAreReleasedTogether(t *testing.T) {
	const way = 20 * time.Millisecond
	onKept(t, func(t *testing.T, w *world) {
		for _, closes := range []bool{true, false} {
			p := w.process()
			var names []string
			for i := range 90 {
				names = append(names, fmt.Sprint("b", i, closes)) // new ones: nobody had them lately
				pair(t, p.s[0].Mutex(names[i], relock.WithKeep(time.Minute)))
				time.Sleep(time.Millisecond)
			}
			p.delay(way)
			if closes {
				require.LessOrEqual(t, took(func() { require.NoError(t, p.s[0].Close(background)) }), 3*2*way)
			} else {
				time.Sleep(time.Minute - 90*time.Millisecond)
				require.True(t, w.has(names[0]))
				time.Sleep(3*way + time.Millisecond)
			}
			require.False(t, w.has(names...))
		}
	})
}

// What is taken over outlasts the same outage as what was acquired, 50 ms after its start.
func TestKeptHoldOutlastsTheSameOutage(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		p := w.process()
		l := p.keptBy()
		for _, after := range []time.Duration{0, 3 * time.Second, 7 * time.Second, 9900 * time.Millisecond, 15 * time.Second} {
			p.keptBy() // the outage before has ended that
			time.Sleep(after)
			require.NoError(t, l.Lock(background))
			time.Sleep(50 * time.Millisecond)
			heal := p.partition()
			time.Sleep(lease - 200*time.Millisecond)
			require.NoError(t, l.Err(), "%v", after)
			heal()
			require.NoError(t, l.Unlock(background))
			time.Sleep(time.Second)
		}
	})
}

// Short sections do not renew what they take over.
func TestShortSectionsOfAKeptLockCostNoRenewal(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		events := new(renewals)
		p := w.process(relock.WithObserver(events))
		l := p.keptBy()
		time.Sleep(10 * lease)
		idle := len(events.takeRounds())
		for range 10 * lease / (500 * time.Millisecond) {
			pair(t, l)
			time.Sleep(500 * time.Millisecond)
		}
		busy := 0
		for _, r := range events.takeRounds() {
			busy += min(r.Holds, 1)
		}
		require.LessOrEqual(t, busy, idle+1)
	})
}

// The tokens of an acquisition are used up some time: the lock is released, and acquired again.
func TestKeptLockWithoutTokensIsAcquiredAgain(t *testing.T) {
	const way = 20 * time.Millisecond
	onKept(t, func(t *testing.T, w *world) {
		p := w.process()
		l := p.s[0].Mutex("a", keeps)
		last := pair(t, l)
		p.delay(way)
		start := time.Now()
		for range 3 * 1024 {
			time.Sleep(time.Microsecond)
			token := pair(t, l)
			require.Greater(t, token, last)
			last = token
		}
		require.Equal(t, 3*2*2*way+3*1024*time.Microsecond, time.Since(start))
	})
}

// A lease of another length is not taken over.
func TestKeptLockGivesWayToOtherLeases(t *testing.T) {
	const way = 20 * time.Millisecond
	onKept(t, func(t *testing.T, w *world) {
		p := w.process()
		for _, o := range []relock.LockOption{
			relock.WithLease(time.Minute), relock.WithFixedLease(time.Minute), relock.WithMaxHold(time.Hour), relock.WithMinHold(time.Millisecond),
		} {
			l := p.keptBy()
			m := p.s[0].Mutex("a", o)
			p.delay(way)
			require.LessOrEqual(t, took(func() { require.NoError(t, m.Lock(background)) }), 4*way)
			require.NoError(t, m.Unlock(background))
			pair(t, l)
			ok, err := m.TryLock(background)
			require.NoError(t, err)
			require.True(t, ok)
			require.NoError(t, m.Unlock(background))
			p.heal()
		}
	})
}

// A Group gives back what it has locked.
func TestGroupKeepsNothing(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		p := w.process()
		g := relock.NewGroup(p.s[0].Mutex("a", keeps), p.s[0].Mutex("b", keeps))
		require.NoError(t, g.Lock(background))
		require.NoError(t, g.Unlock(background))
		require.True(t, w.free())
		p.keptBy()
		require.NoError(t, g.Lock(background))
		require.NoError(t, g.Unlock(background))
		time.Sleep(time.Second)
		require.True(t, w.free())
	})
}

func TestOldestKeptLocksGoFirst(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		s := w.process().s[0]
		peek.Session(s).Keeper.Most = 3
		for n := range 6 {
			pair(t, s.Mutex(string(rune('m'+n)), keeps))
			time.Sleep(time.Second)
			if n == 2 {
				pair(t, s.Mutex("m", keeps)) // used again: it is the youngest now
				time.Sleep(time.Second)
			}
		}
		for _, name := range []string{"m", "n", "o"} {
			require.False(t, w.has(name), name)
		}
		for _, name := range []string{"p", "q", "r"} {
			require.True(t, w.has(name), name)
		}
	})
}

func TestWithKeepIsForMutexes(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		l := p.lock(keeps)
		err := l.Lock(background)
		if w.typ.name == "Mutex" || w.typ.name == "Group" {
			require.NoError(t, err)
			require.NoError(t, l.Unlock(background))
		} else {
			require.ErrorIs(t, err, relock.ErrOption)
			_, err = l.TryLock(background)
			require.ErrorIs(t, err, relock.ErrOption)
		}
		for _, o := range []relock.LockOption{
			relock.WithFixedLease(time.Minute), relock.WithMaxHold(time.Minute), relock.WithMinHold(time.Minute), relock.WithKeep(0),
		} {
			require.ErrorIs(t, p.s[0].Mutex("x", keeps, o).Lock(background), relock.ErrOption)
		}
		time.Sleep(time.Second)
	})
}

// A hold that is handed off is not this process's to keep.
func TestHandedOffLockIsNotKept(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		p := w.process()
		l := p.keptBy()
		h, err := l.Acquire(background)
		require.NoError(t, err)
		_, err = h.Handoff(background, time.Minute)
		require.NoError(t, err)
		ok, err := l.TryLock(background)
		require.NoError(t, err)
		require.False(t, ok)
		time.Sleep(2 * time.Minute)
		require.True(t, w.free())
	})
}
