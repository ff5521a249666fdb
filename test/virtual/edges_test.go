package virtual_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
	"github.com/relock-go/relock/relocktest"
)

// Guarantee 7: after a step back of the clock the fence remembers the last token until the clock has passed it. A hold
// that is renewed once shortens that memory to a minute, and the next token is smaller.
func TestRenewalShortensTheMemoryOfTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := relocktest.New(t)
		m := r.Session().Mutex("a")
		require.NoError(t, m.Lock(background))
		require.NoError(t, m.Unlock(background))
		r.StepClock(-time.Hour)
		require.NoError(t, m.Lock(background))
		last := m.FencingToken()
		time.Sleep(11 * time.Second) // one renewal
		require.NoError(t, m.Unlock(background))
		time.Sleep(2 * time.Minute)
		require.NoError(t, m.Lock(background))
		require.Greater(t, m.FencingToken(), last)
		require.NoError(t, m.Unlock(background))
	})
}

// WithMinHold: after the Unlock of a writer nobody gets the lock. If its owner has read inside the section, and has
// done with that, readers get in at once.
func TestMinHoldOfAWriterThatHasRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := relocktest.New(t)
		s, other := r.Session(), r.Session()
		rw := s.RWMutex("a", relock.WithMinHold(time.Minute))
		ctx := s.NewContext(background)
		require.NoError(t, rw.Lock(ctx))
		require.NoError(t, rw.RLock(ctx))
		require.NoError(t, rw.RUnlock(ctx))
		require.NoError(t, rw.Unlock(ctx))
		ok, err := other.RWMutex("a").TryRLock(background)
		require.NoError(t, err)
		require.False(t, ok, "the write side was to rest for a minute")
	})
}

// Guarantee 3: a dead process frees its locks within a lease. A writer that has read inside its section through a handle
// with WithMinHold, and then dies, keeps everybody out for as long as that minimum, readers too.
func TestMinHoldOfAReaderKeepsADeadWriter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := relocktest.New(t)
		s, other := r.Session(), r.Session()
		ctx := s.NewContext(background)
		require.NoError(t, s.RWMutex("a").Lock(ctx))
		reads := s.RWMutex("a", relock.WithMinHold(time.Hour))
		require.NoError(t, reads.RLock(ctx))
		require.NoError(t, reads.RUnlock(ctx))
		r.Partition(s) // it is dead for the others
		start := time.Now()
		in := other.RWMutex("a")
		short, cancel := context.WithTimeout(background, 2*time.Hour)
		defer cancel()
		require.NoError(t, in.RLock(short))
		require.LessOrEqual(t, time.Since(start), lease+5*time.Second)
	})
}

// WithMinHold of a Redlock: it is free d after the acquisition. If servers came back without data while it was held, it is
// taken until d after the repair.
func TestMinHoldOfARedlockThatWasRepaired(t *testing.T) {
	alone(t, redlock, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		const least = 10 * time.Minute
		l := p.held(relock.WithMinHold(least))
		start := time.Now()
		time.Sleep(8 * time.Minute)
		for _, i := range []int{0, 1} {
			w.redis[i].Restart(false)
			time.Sleep(time.Minute / 2)
			require.NoError(t, l.Err())
		}
		require.NoError(t, l.Unlock(background))
		next := other.lock()
		require.NoError(t, next.Lock(background))
		require.GreaterOrEqual(t, time.Since(start), least)
		require.LessOrEqual(t, time.Since(start), least+5*time.Second)
	})
}

// WithMinHold: nobody gets the lock until d after the acquisition. Somebody gets it up to a millisecond before; with the
// smallest d that is allowed nothing is kept at all.
func TestMinHoldIsNotCutToMilliseconds(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		for _, least := range []time.Duration{time.Millisecond, 10 * time.Millisecond, time.Second} {
			l := p.held(relock.WithMinHold(least))
			start := time.Now()
			time.Sleep(100 * time.Microsecond)
			require.NoError(t, l.Unlock(background))
			next := other.otherSide()
			time.Sleep(least - 2*time.Millisecond)
			for {
				ok, err := next.TryLock(background)
				require.NoError(t, err)
				if ok {
					break
				}
				time.Sleep(10 * time.Microsecond)
			}
			require.GreaterOrEqual(t, time.Since(start), least)
			require.NoError(t, next.Unlock(background))
			time.Sleep(time.Second)
		}
	})
}

// WithMinHold of the longest Duration keeps nothing, where WithMaxHold of it means for ever.
func TestLongestMinHold(t *testing.T) {
	alone(t, &lockTypes[0], func(t *testing.T, w *world) {
		p := w.process()
		l := p.held(relock.WithMinHold(math.MaxInt64))
		require.NoError(t, l.Unlock(background))
		require.False(t, w.free())
	})
}

// Every ErrLost of Do says why. That of a Do under an owner that has lost the lock, and not unlocked it, does not.
func TestDoOfAnOwnerThatHasLost(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		ctx := p.s[0].NewContext(background)
		l := p.lock(relock.WithFixedLease(time.Second))
		require.NoError(t, l.Lock(ctx))
		time.Sleep(2 * time.Second)
		err := relock.Do(ctx, l, func(context.Context) error { return nil })
		require.ErrorIs(t, err, relock.ErrLost)
		require.ErrorIs(t, err, relock.ErrExpired)
	})
}

// State.Token and Age are those of the hold for as long as it is held. With a lease of more than three minutes, or one that
// is fixed, they are 0 from the end of the first minute until the first renewal, if there is one.
func TestTokenOfALongLease(t *testing.T) {
	for name, o := range map[string]relock.LockOption{
		"renewed": relock.WithLease(10 * time.Minute), "fixed": relock.WithFixedLease(10 * time.Minute),
	} {
		t.Run(name, func(t *testing.T) {
			alone(t, &lockTypes[0], func(t *testing.T, w *world) {
				p := w.process()
				m := p.s[0].Mutex("a", o)
				require.NoError(t, m.Lock(background))
				time.Sleep(2 * time.Minute)
				st, err := p.s[0].Inspect(background, "a")
				require.NoError(t, err)
				require.NoError(t, m.Err())
				require.Equal(t, m.FencingToken(), st.Token)
				require.InDelta(t, 2*time.Minute, st.Age, float64(time.Second))
			})
		})
	}
}

// TryLock of a Group locks every member if none is taken, and WithMinHold promises a job that runs once a period. Of two
// hosts that try at the same moment each gets one member, and in some periods nobody runs.
func TestGroupTryLockOfTwo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := relocktest.New(t)
		a, b := r.Session(), r.Session()
		memredis.Of(r, a).Delay(time.Millisecond) // both arrive at the same moment
		memredis.Of(r, b).Delay(time.Millisecond)
		nobody := 0
		for range 1000 {
			var runs atomic.Int32
			var wg sync.WaitGroup
			for i, s := range []*relock.Session{a, b} {
				wg.Go(func() {
					names := [][]string{{"a", "b"}, {"b", "a"}}[i]
					rests := relock.WithMinHold(time.Second)
					g := relock.NewGroup(s.Mutex(names[0], rests), s.Mutex(names[1], rests))
					_, err := relock.TryDo(background, g, func(context.Context) error { runs.Add(1); return nil })
					assert.NoError(t, err)
				})
			}
			wg.Wait()
			if runs.Load() == 0 {
				nobody++
			}
			time.Sleep(2 * time.Second)
		}
		require.Zero(t, nobody)
	})
}

// WithWait bounds how long Lock waits, or it says why Redis did not answer. Lock of a Group with it takes 4 to 12 s when
// Redis hangs, for a wait of 1 s.
func TestGroupWithWaitInAnOutage(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		l := p.lock(relock.WithWait(time.Second))
		p.partition()
		d := took(func() { require.Error(t, l.Lock(background)) })
		require.LessOrEqual(t, d, 1500*time.Millisecond)
	})
}

// logged is a Locker of another package around one of ours.
type logged struct{ m relock.Locker }

func (l logged) Lock(ctx context.Context) error            { return l.m.Lock(ctx) }
func (l logged) TryLock(ctx context.Context) (bool, error) { return l.m.TryLock(ctx) }
func (l logged) Unlock(ctx context.Context) error          { return l.m.Unlock(ctx) }
func (l logged) Done() <-chan struct{}                     { return l.m.Done() }
func (l logged) Err() error                                { return l.m.Err() }

// Every ErrLost of Do and of its ctx cause says why. Around a Locker of another package both are a bare ErrLost, though that
// Locker's Err and Unlock know the cause.
func TestCauseOfALockerAroundOurs(t *testing.T) {
	alone(t, &lockTypes[0], func(t *testing.T, w *world) {
		p := w.process()
		l := logged{p.lock()}
		err := relock.Do(background, l, func(ctx context.Context) error {
			w.redis[0].Lose("a")
			<-ctx.Done()
			require.ErrorIs(t, l.Err(), relock.ErrForced)
			assert.ErrorIs(t, context.Cause(ctx), relock.ErrForced)
			return nil
		})
		require.ErrorIs(t, err, relock.ErrForced)
	})
}

// Err of a Group tells why it was lost. Of a member of another package it says ErrGone, whatever the member's Err says, and
// its Unlock says something else (ErrForced here).
func TestCauseOfAGroupOfLockersAroundOurs(t *testing.T) {
	alone(t, &lockTypes[0], func(t *testing.T, w *world) {
		p := w.process()
		l := logged{p.lock()}
		g := relock.NewGroup(l, p.s[0].Mutex("b"))
		require.NoError(t, g.Lock(background))
		w.redis[0].Lose("a")
		synctest.Wait()
		require.ErrorIs(t, l.Err(), relock.ErrForced)
		err := g.Err()
		assert.ErrorIs(t, err, relock.ErrForced)
		assert.NotErrorIs(t, err, relock.ErrGone)
		err = g.Unlock(background)
		t.Log(err)
		assert.ErrorIs(t, err, relock.ErrForced)
	})
}

// TryLock waits for Redis some 3 s at most. Under a context without an end it takes 5 s, a Group's up to 11 s, once a call
// before it had no answer (or at once, if the session knows that its connection is down).
func TestTryLockInAnOutage(t *testing.T) {
	for fault := range outages {
		for _, after := range []time.Duration{0, 5 * time.Second, time.Minute} {
			for _, cancellable := range []bool{false, true} {
				t.Run(fmt.Sprint(fault, after, cancellable), func(t *testing.T) {
					onEach(t, func(t *testing.T, w *world) {
						p := w.process()
						ctx, cancel := background, func() {}
						if cancellable {
							ctx, cancel = context.WithCancel(background)
						}
						defer cancel()
						l := p.lock()
						p.networks(outages[fault])
						time.Sleep(after)
						for i := range 3 {
							d := took(func() {
								ok, err := l.TryLock(ctx)
								assert.False(t, ok)
								assert.Error(t, err)
							})
							assert.LessOrEqual(t, d, 3500*time.Millisecond, "call %d", i)
						}
					})
				})
			}
		}
	}
}
