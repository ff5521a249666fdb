package virtual_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
	"github.com/relock-go/relock/internal/peek"
)

// A lock is forced open, or Redis loses it, while its session hears no messages. A kept lock is not taken over then.
func TestKeptLockIsNotTakenOverAfterAGap(t *testing.T) {
	for how, f := range map[string]func(w *world, p, other *process){
		"forced": func(w *world, p, other *process) {
			p.networks((*memredis.Process).Break)
			synctest.Wait() // it sees that
			was, err := other.s[0].ForceUnlock(background, "a")
			require.NoError(w.t, err)
			require.True(w.t, was)
		},
		"restarted": func(w *world, _, _ *process) { w.restart(false) },
	} {
		t.Run(how, func(t *testing.T) {
			onKept(t, func(t *testing.T, w *world) {
				p, other := w.process(), w.process()
				l, by := p.keptBy(), other.s[0].Mutex("a")
				f(w, p, other)
				require.NoError(t, by.Lock(background))
				for range 1000 {
					ok, err := l.TryLock(background)
					require.False(t, ok)
					require.NoError(t, err)
					time.Sleep(5 * time.Millisecond)
				}
				require.NoError(t, by.Unlock(background))
				require.Greater(t, pair(t, l), by.FencingToken())
			})
		})
	}
}

// Whoever holds a lock that was forced open while the session was cut off hears of it once that is connected again.
func TestLossInAGapIsToldAfterIt(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		if len(w.typ.names) > 1 || w.typ.redis > 1 {
			return
		}
		p, other := w.process(), w.process()
		l := p.held()
		p.networks((*memredis.Process).Break)
		_, err := other.s[0].ForceUnlock(background, w.typ.names[0])
		require.NoError(t, err)
		start := time.Now()
		require.Less(t, lost(t, l).Sub(start), 2*time.Second)
		require.ErrorIs(t, l.Unlock(background), relock.ErrGone)
	})
}

// The server refuses new connections for messages, and commands go on: what is kept is released after a second.
func TestKeeperThatStaysDeafReleases(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		p.keptBy()
		allow := 1 // for the commands
		memredis.Of(w.redis[0], p.s[0]).Server().OnCommand(func(verb string, _ []string) string {
			if verb == "HELLO" {
				if allow--; allow < 0 {
					return "ERR max number of clients reached"
				}
			}
			return ""
		})
		p.networks((*memredis.Process).Break)
		synctest.Wait()
		for range 3 {
			_, _ = p.s[0].Inspect(background, "z")
		}
		require.Less(t, took(func() { require.NoError(t, other.s[0].Mutex("a").Lock(background)) }), 1100*time.Millisecond)
	})
}

// A lock that this process keeps, and has to release for a call, is nobody's: if Redis does not answer, the call says that.
func TestKeptLockThatIsReleasedIsNotTaken(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		p := w.process()
		short := p.s[0].Mutex("a", relock.WithKeep(3*time.Second))
		pair(t, short)
		time.Sleep(10 * time.Millisecond)
		pair(t, short)
		heal := p.partition()
		time.Sleep(6 * time.Second) // its time ends
		err := p.s[0].Mutex("a", relock.WithWait(5*time.Second)).Lock(background)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, relock.ErrTaken)
		heal()
		time.Sleep(2 * lease)

		p.keptBy()
		heal = p.partition()
		m := p.s[0].Mutex("a", relock.WithLease(time.Minute), relock.WithWait(1500*time.Millisecond))
		require.NotErrorIs(t, m.Lock(background), relock.ErrTaken)
		heal()
		time.Sleep(2 * lease)

		p.keptBy()
		heal = p.partition()
		_, err = m.TryLock(background)
		require.ErrorContains(t, err, "no confirmation from Redis")
		heal()
	})
}

// A TryLock that another length of the lease makes release what was kept ends with its context all the same, and says
// why; the release goes on.
func TestTryLockOfWhatWasKeptEndsWithItsContext(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		p := w.process()
		p.keptBy()
		p.delay(50 * time.Millisecond)
		ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
		defer cancel()
		start := time.Now()
		ok, err := p.s[0].Mutex("a", relock.WithLease(time.Minute)).TryLock(ctx)
		require.False(t, ok)
		require.Equal(t, 20*time.Millisecond, time.Since(start))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, relock.ErrUnavailable)
		require.NotErrorIs(t, err, relock.ErrTaken)
		time.Sleep(100 * time.Millisecond)
		require.True(t, w.free())
	})
}

// Nobody has a lock that its process only has to release: a TryLock amid that gets it.
func TestTryLockAmidTheReleaseOfWhatWasKept(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		p := w.process()
		l := p.s[0].Mutex("a", relock.WithKeep(time.Second))
		pair(t, l)
		p.delay(50 * time.Millisecond)
		time.Sleep(time.Second + 20*time.Millisecond)
		for _, o := range [][]relock.LockOption{nil, {keeps}} {
			m := p.s[0].Mutex("a", o...)
			ok, err := m.TryLock(background)
			require.NoError(t, err)
			require.True(t, ok)
			require.NoError(t, m.Unlock(background))
			pair(t, l)
			time.Sleep(time.Second + 20*time.Millisecond)
		}
	})
}

// A kept lock that was lost unnoticed, and adopted from who has it since, does not count as kept any more.
func TestAdoptEndsWhatWasKept(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		peek.Session(p.s[0]).Keeper.Most = 1
		pair(t, p.s[0].Mutex("a", relock.WithKeep(10*time.Hour)))
		w.do("DEL", "a")
		require.NoError(t, p.adopts(other.handsOff(time.Minute)).Unlock(background))
		require.True(t, w.free())
		time.Sleep(5 * time.Minute) // what was left is renewed, and found gone
		pair(t, p.s[0].Mutex("b", keeps))
		time.Sleep(time.Second)
		require.True(t, w.has("b"))
	})
}

// A ticket that was over when Redis answered is an error, also if the first request was answered so late.
func TestHandoffThatIsAnsweredTooLateOnce(t *testing.T) {
	onMutex(t, func(t *testing.T, w *world) {
		p := w.process()
		m := p.taken()
		p.delay(50 * time.Millisecond)
		_, err := m.Handoff(background, 10*time.Millisecond)
		require.ErrorIs(t, err, relock.ErrExpired)
	})
}
