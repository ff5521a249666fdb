package virtual_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/memredis"
)

// inFive runs f in a bubble with a Redlock of five servers.
func inFive(t *testing.T, f func(t *testing.T, w *world, p *process)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		typ := *redlock
		typ.redis = 5
		w := newWorld(t, &typ)
		f(t, w, w.process())
	})
}

// on calls f for the process's networks to these servers.
func (p *process) on(f func(*memredis.Process), which ...int) {
	for _, i := range which {
		f(memredis.Of(p.w.redis[i], p.s[i]))
	}
}

func heal(n *memredis.Process) { n.Heal() }

// one returns a world of one of the servers.
func (w *world) one(i int) *world { return &world{t: w.t, typ: w.typ, redis: w.redis[i : i+1]} }

// holders returns on how many servers the lock is held.
func (w *world) holders() (n int) {
	synctest.Wait() // a majority was enough for Lock to return
	for i := range w.redis {
		if !w.one(i).free() {
			n++
		}
	}
	return n
}

var outages = map[string]func(*memredis.Process){"hang": func(n *memredis.Process) { n.Cut() }, "down": down}

func down(p *memredis.Process) { p.Refuse() }

// inOutages runs f like inFive for each way in which servers can be out of reach.
func inOutages(t *testing.T, f func(t *testing.T, w *world, p *process, what string)) {
	for what := range outages {
		t.Run(what, func(t *testing.T) {
			inFive(t, func(t *testing.T, w *world, p *process) { f(t, w, p, what) })
		})
	}
}

// It is lost when fewer than a majority are certain, and nothing is left on the others then.
func TestRedlockOutlivesAMinority(t *testing.T) {
	inOutages(t, func(t *testing.T, w *world, p *process, what string) {
		other := w.process()
		p.on(outages[what], 1, 3)
		l := p.held() // pauses once for those that hang
		start := time.Now()
		require.Equal(t, 3, w.holders())
		ok, err := other.lock().TryLock(background)
		require.NoError(t, err)
		require.False(t, ok)
		time.Sleep(10 * lease)
		require.NoError(t, l.Err())
		p.on(heal, 1, 3)
		time.Sleep(lease)
		require.Equal(t, 5, w.holders(), "taken again where it was not")
		p.on(outages[what], 0, 4)
		time.Sleep(10 * lease)
		require.NoError(t, l.Err())
		last := time.Since(start).Truncate(lease / 3) // when the last renewals were due, about
		p.on(outages[what], 2)
		require.InDelta(t, last+lease, lost(t, l).Sub(start), float64(lease/3+time.Second))
		require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
		require.ErrorIs(t, l.Unlock(background), relock.ErrNotHeld)
		time.Sleep(time.Minute)
		require.True(t, w.free())
	})
}

// Servers that come back without their data are asked again, and count then.
func TestServersThatLoseTheirDataAreRepairedWhileHeld(t *testing.T) {
	inFive(t, func(t *testing.T, w *world, p *process) {
		l := p.held()
		for _, which := range [][]int{{2, 3}, {0, 4}, {1}} {
			for _, i := range which {
				w.redis[i].Restart(false)
			}
			time.Sleep(lease/3 + 5*time.Second)
			require.Equal(t, 5, w.holders())
			require.NoError(t, l.Err())
		}
		// Forced open on a minority it is taken again; on a majority it is lost, at once.
		for _, r := range w.redis[:2] {
			r.Lose("a")
		}
		time.Sleep(5 * time.Second)
		require.Equal(t, 5, w.holders())
		require.NoError(t, l.Err())
		start := time.Now()
		for _, r := range w.redis[1:4] {
			r.Lose("a")
		}
		require.Zero(t, lost(t, l).Sub(start))
		time.Sleep(time.Second)
		require.True(t, w.free())
		require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
	})
}

// Unlock is the first to find out what servers forgot.
func TestUnlockSaysWhetherAMajorityHadTheRedlock(t *testing.T) {
	inFive(t, func(t *testing.T, w *world, p *process) {
		for _, gone := range [][]int{{}, {3}, {1, 2}, {0, 2, 4}, {1, 2, 3, 4}, {0, 1, 2, 3, 4}} {
			l := p.held()
			synctest.Wait()
			for _, i := range gone {
				w.one(i).del()
			}
			require.Equal(t, len(gone) > 2, errors.Is(l.Unlock(background), relock.ErrLost), "%v", gone)
		}
	})
}

// Lock rides it out; nothing is left of what fails.
func TestRedlockFailsCleanlyWithoutAMajority(t *testing.T) {
	inOutages(t, func(t *testing.T, w *world, p *process, what string) {
		p.on(outages[what], 0, 2, 4)
		l := p.lock()
		ok, err := l.TryLock(background)
		require.False(t, ok)
		require.Regexp(t, "deployment [135] of 5", err.Error()) // of those that were asked
		require.NotRegexp(t, "deployment [24] of 5", err.Error())
		require.ErrorIs(t, l.Unlock(background), relock.ErrNotHeld)
		time.Sleep(2 * lease)
		require.True(t, w.free())
		ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, l.Lock(ctx), context.DeadlineExceeded)
		start := time.Now()
		time.AfterFunc(20*time.Millisecond, func() { p.on(heal, 2) })
		require.NoError(t, l.Lock(background))
		require.Less(t, time.Since(start), 5*time.Second)
		require.NoError(t, l.Unlock(background))
		p.on(heal, 0, 4)
		time.Sleep(2 * lease)
		require.True(t, w.free())
	})
}

// What Lock takes and gives back on a minority wakes neither itself nor others that wait.
func TestRedlocksAreNotWokenByWhatTheyGiveBack(t *testing.T) {
	inOutages(t, func(t *testing.T, w *world, p *process, what string) {
		var taken atomic.Int64
		for i := range w.redis {
			memredis.Of(w.redis[i], p.s[i]).Server().OnCommand(func(verb string, args []string) string {
				if verb == "HSET" && args[0] == "a" {
					taken.Add(1)
				}
				return ""
			})
		}
		ps := []*process{p, w.process()}
		locked := make(chan relock.Locker, 2)
		for _, p := range ps {
			p.on(outages[what], 0, 2, 4)
			go func() { locked <- p.held() }()
		}
		// What is sent to servers that hang may be executed when they are back. It is cleaned up
		// for as long as a lease.
		down, within := time.Minute, 2*time.Second
		if what == "hang" {
			down, within = lease/2, 5*time.Second
		}
		time.Sleep(down)
		rounds := float64(taken.Load()) / 2 / 2 // two servers, two processes
		require.Positive(t, rounds)
		require.Less(t, rounds, 1.5*down.Seconds()+10)
		start := time.Now()
		for _, p := range ps {
			p.on(heal, 2, 4)
		}
		for range ps {
			l := <-locked
			require.Less(t, time.Since(start), within)
			require.NoError(t, l.Unlock(background))
			start = time.Now()
		}
	})
}

// Servers that are down delay nobody who waits for an unlock on the others: he asks again every now and then.
func TestRedlockFindsAnUnlockBesideAnOutage(t *testing.T) {
	inOutages(t, func(t *testing.T, w *world, p *process, what string) {
		holder := w.process().held()
		p.on(outages[what], 0, 2)
		locked := kit.Async(func() relock.Locker { return p.held() })
		time.Sleep(time.Minute)
		start := time.Now()
		require.NoError(t, holder.Unlock(background))
		l := <-locked
		require.Less(t, time.Since(start), 200*time.Millisecond)
		require.NoError(t, l.Unlock(background))
	})
}

// One deployment that hangs is not waited for.
func TestHangingDeploymentIsNotWaitedFor(t *testing.T) {
	inFive(t, func(t *testing.T, w *world, p *process) {
		pair := func() {
			l := p.held()
			require.Equal(t, 4, w.holders())
			require.NoError(t, l.Unlock(background))
		}
		p.on(outages["hang"], 4)
		for range 4 {
			require.LessOrEqual(t, took(pair), time.Millisecond)
		}
		// It counts where the others are no majority.
		p.on(heal, 4)
		p.on(down, 0, 1)
		l := p.held()
		require.NoError(t, l.Err())
		require.NoError(t, l.Unlock(background))
	})
}

// A Lock that is between two rounds need not make another one to find out that no majority is open.
func TestCloseEndsTheLockOfARedlockAtOnce(t *testing.T) {
	inFive(t, func(t *testing.T, w *world, p *process) {
		w.process().held()
		ended := begin(background, p.lock())
		time.Sleep(10 * time.Second)
		for _, s := range p.s[:3] {
			require.NoError(t, s.Close(background))
		}
		require.Zero(t, took(func() { require.ErrorIs(t, <-ended, relock.ErrClosed) }))
	})
}
