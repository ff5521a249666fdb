package virtual_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/memredis"
)

// What an Eval does while its hold, its session or its permit ends, or its reply is lost.

// Close ends an Eval whose context can end, within the time that it takes without one.
func TestEvalEndsWithTheSession(t *testing.T) {
	alone(t, &lockTypes[0], func(t *testing.T, w *world) {
		p := w.process()
		h, err := p.lock().(kit.Acquirer).Acquire(background)
		require.NoError(t, err)
		heal := p.partition()
		defer heal()
		ctx, cancel := context.WithTimeout(background, time.Hour)
		defer cancel()
		start := time.Now()
		got := make(chan error, 1)
		go func() { got <- h.Eval(ctx, countUp, []string{"{a}:count"}, []string{"2"}).Error() }()
		synctest.Wait()
		require.Error(t, p.s[0].Close(background), "the lock is not released")
		err = <-got
		require.ErrorIs(t, err, relock.ErrClosed)
		require.ErrorIs(t, err, relock.ErrUnavailable)
		require.LessOrEqual(t, time.Since(start), 10*time.Second)
	})
}

// A script whose own error begins with NOSCRIPT runs once.
func TestEvalOfAScriptThatFailsWithNoScript(t *testing.T) {
	alone(t, &lockTypes[0], func(t *testing.T, w *world) {
		p := w.process()
		h, err := p.lock().(kit.Acquirer).Acquire(background)
		require.NoError(t, err)
		const script = "redis.call('incr', KEYS[1]) return redis.error_reply('NOSCRIPT mine')"
		err = h.Eval(background, script, []string{"{a}:count"}, nil).Error()
		require.ErrorContains(t, err, "NOSCRIPT")
		w.counts(1)
		require.NoError(t, h.Unlock(background))
	})
}

// A script that returns nil is known by its digest afterwards, as others are.
func TestEvalThatReturnsNilIsSentByItsDigest(t *testing.T) {
	alone(t, &lockTypes[0], func(t *testing.T, w *world) {
		p := w.process()
		h, err := p.lock().(kit.Acquirer).Acquire(background)
		require.NoError(t, err)
		evals := func(f func()) (verbs []string) {
			server := memredis.Of(w.redis[0], p.s[0]).Server()
			server.OnCommand(func(verb string, args []string) string {
				if strings.HasPrefix(verb, "EVAL") {
					verbs = append(verbs, verb)
				}
				return ""
			})
			f()
			server.OnCommand(func(string, []string) string { return "" })
			return verbs
		}
		eval := func() {
			err := h.Eval(background, "return redis.call('get', KEYS[1])", []string{"{a}:none"}, nil).Error()
			require.True(t, rueidis.IsRedisNil(err), "%v", err)
		}
		eval()
		eval()
		require.Equal(t, []string{"EVALSHA"}, evals(eval))
		require.NoError(t, h.Unlock(background))
	})
}

// lossFails fails the test upon any loss.
type lossFails struct {
	relock.NopObserver
	t *testing.T
}

func (l *lossFails) Lost(e relock.LostEvent) { l.t.Error("lost", e) }

// An Eval beside a Handoff or Unlock, at each moment of it, runs or finds that the hold has ended:
// it reports no loss.
func TestEvalBesideTheEndOfItsHold(t *testing.T) {
	for _, way := range []string{"handoff", "unlock", "unlock with a waiter", "unlock with WithKeep"} {
		for d := time.Duration(0); d < 12; d++ {
			t.Run(fmt.Sprint(way, " after ", d), func(t *testing.T) {
				alone(t, &lockTypes[0], func(t *testing.T, w *world) { evalBesideTheEnd(t, w, way, d*time.Millisecond) })
			})
		}
	}
}

// evalBesideTheEnd starts an Eval after d, where a hold ends after 5 ms and each message takes 5
// ms.
func evalBesideTheEnd(t *testing.T, w *world, way string, d time.Duration) {
	p, other := w.process(relock.WithObserver(&lossFails{t: t})), w.process()
	var o []relock.LockOption
	if way == "unlock with WithKeep" {
		o = append(o, relock.WithKeep(time.Hour))
	}
	m := p.s[0].Mutex("a", o...)
	h, err := m.Acquire(background)
	require.NoError(t, err)
	var next <-chan error
	if way == "unlock with a waiter" {
		next = begin(background, m)
		synctest.Wait()
	}
	p.delay(5 * time.Millisecond)
	got := make(chan error, 1)
	go func() {
		time.Sleep(d)
		got <- h.Eval(background, countUp, []string{"{a}:count"}, []string{"2"}).Error()
	}()
	time.Sleep(5 * time.Millisecond)
	if way == "handoff" {
		ticket, err := h.Handoff(background, time.Minute)
		require.NoError(t, err)
		a, err := other.s[0].Adopt(background, ticket)
		require.NoError(t, err)
		require.NoError(t, a.Unlock(background))
	} else {
		require.NoError(t, h.Unlock(background))
	}
	if err := <-got; err != nil {
		require.ErrorIs(t, err, relock.ErrNotHeld)
	}
	require.NotErrorIs(t, h.Err(), relock.ErrLost)
	if next != nil {
		require.NoError(t, <-next)
		require.NoError(t, m.Err())
		require.NoError(t, m.Unlock(background))
	}
	time.Sleep(time.Minute)
}

// An Eval whose reply is lost has run once, and is not sent again. The hold goes on.
func TestEvalWhoseReplyIsLostRunsOnce(t *testing.T) {
	alone(t, &lockTypes[0], func(t *testing.T, w *world) {
		p := w.process()
		h, err := p.lock().(kit.Acquirer).Acquire(background)
		require.NoError(t, err)
		lost := 0 // the reply that is lost may be one to a question of the session
		for i := range 4 {
			_, err = countIn(h)
			require.NoError(t, err)
			memredis.Of(w.redis[0], p.s[0]).DropReplies(1)
			if _, err = countIn(h); err != nil {
				require.ErrorIs(t, err, relock.ErrUnavailable)
				lost++
			}
			time.Sleep(time.Second)
			w.counts(4 * (i + 1))
			require.NoError(t, h.Err())
		}
		require.Positive(t, lost)
		require.NoError(t, h.Unlock(background))
	})
}

// A script that arrives late does not run for a permit that has ended, though another permit lives.
func TestEvalOfAnEndedPermit(t *testing.T) {
	alone(t, semaphore, func(t *testing.T, w *world) {
		p, q := w.process(), w.process()
		other := q.s[0].Semaphore("a", 2)
		require.NoError(t, other.Lock(background))
		h, err := p.s[0].Semaphore("a", 2, relock.WithFixedLease(time.Second)).Acquire(background)
		require.NoError(t, err)
		p.delay(2 * time.Second)
		go func() { _ = h.Eval(background, countUp, []string{"{a}:count"}, []string{"2"}) }()
		<-h.Done()
		require.ErrorIs(t, h.Err(), relock.ErrLost)
		time.Sleep(500 * time.Millisecond) // one second and a half after the acquisition
		st, err := q.s[0].Inspect(background, "a")
		require.NoError(t, err)
		require.Len(t, st.Holders, 1)
		time.Sleep(5 * time.Second)
		_, err = w.counter()
		require.Error(t, err, "it has run")
	})
}
