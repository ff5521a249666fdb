package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
)

// shutdown calls Shutdown of the process's sessions in goroutines, and returns what they will return, joined.
func (p *process) shutdown(ctx context.Context) <-chan error {
	return kit.Async(func() error {
		return kit.Together(len(p.s), func(i int) error { return p.s[i].Shutdown(ctx) })
	})
}

func TestShutdownWaitsForHoldsAndGrantsNothingNew(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		owner := p.s[0].NewContext(background)
		l := p.lock()
		require.NoError(t, l.Lock(owner))
		rival := other.opposite()
		require.False(t, must(rival.TryLock(background)), "it is held")
		start, ended := time.Now(), p.shutdown(background)
		time.Sleep(10 * lease)
		require.Empty(t, ended)
		require.NoError(t, l.Err(), "it is renewed")
		for range 2 {
			require.NoError(t, l.Lock(owner), "its owner enters again")
		}
		require.True(t, must(l.TryLock(owner)))
		for what, ctx := range map[string]context.Context{"handle": background, "owner": p.s[0].NewContext(background)} {
			require.ErrorIs(t, p.lock().Lock(ctx), relock.ErrClosed, what)
			_, err := p.lock().TryLock(ctx)
			require.ErrorIs(t, err, relock.ErrClosed, what)
		}
		for range 4 {
			require.Empty(t, ended)
			require.False(t, kit.IsClosed(p.s[0].Done()))
			require.NoError(t, l.Unlock(owner))
			synctest.Wait()
		}
		require.NoError(t, <-ended)
		require.Less(t, time.Since(start), 10*lease+2*time.Second)
		for _, s := range p.s {
			require.True(t, kit.IsClosed(s.Done()))
		}
		require.True(t, w.free())
		ok, err := rival.TryLock(background)
		require.NoError(t, err)
		require.True(t, ok)
	})
}

func must(ok bool, err error) bool { return ok && err == nil }

func TestShutdownEndsWaits(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		holder := other.opposite()
		require.NoError(t, holder.Lock(background))
		var waits []<-chan error
		shared := p.lock()
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		for _, l := range []relock.Locker{p.lock(), shared, shared, p.lock()} { // one in Redis, the others behind it
			waits = append(waits, begin(background, l), begin(ctx, l))
		}
		time.Sleep(time.Second)
		ended := p.shutdown(background)
		for _, err := range waits {
			require.ErrorIs(t, <-err, relock.ErrClosed)
		}
		require.NoError(t, <-ended)
		require.NoError(t, holder.Unlock(background))
		require.True(t, w.free(), "nothing was granted to those that waited")
	})
}

// Unlock passes the lock to no goroutine of the process, but waiters of other processes get it.
func TestShutdownLeavesTheLockToOthers(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		l := p.held()
		local, remote := begin(background, p.opposite()), begin(background, other.opposite())
		time.Sleep(time.Second)
		ended := p.shutdown(background)
		require.ErrorIs(t, <-local, relock.ErrClosed)
		require.NoError(t, l.Unlock(background))
		require.NoError(t, <-ended)
		require.NoError(t, <-remote)
	})
}

func TestShutdownWhoseContextEndsClosesAndNamesWhatWasHeld(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		l := p.held()
		cause := errors.New("the grace is over")
		ctx, cancel := context.WithTimeoutCause(background, time.Minute, cause)
		defer cancel()
		start := time.Now()
		err := <-p.shutdown(ctx)
		require.Less(t, time.Since(start), time.Minute+closeMost)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, cause)
		require.ErrorContains(t, err, "still held")
		require.ErrorIs(t, l.Err(), relock.ErrLost)
		require.ErrorIs(t, l.Err(), relock.ErrClosed)
		require.True(t, w.free())
	})
}

func TestShutdownDoesNotWaitForWhatIsLost(t *testing.T) {
	for what, lose := range map[string]func(w *world, p *process){
		"forced": func(w *world, p *process) {
			for _, r := range w.redis {
				r.Lose("a")
			}
		},
		"gone":     func(w *world, _ *process) { w.restart(false) },
		"cut off":  func(_ *world, p *process) { p.partition() },
		"no Redis": func(_ *world, p *process) { p.refuse() },
	} {
		t.Run(what, func(t *testing.T) {
			onEach(t, func(t *testing.T, w *world) {
				p := w.process()
				l := p.held()
				ended := p.shutdown(background)
				time.Sleep(time.Second)
				require.Empty(t, ended)
				start := time.Now()
				lose(w, p)
				<-l.Done()
				require.ErrorIs(t, l.Err(), relock.ErrLost)
				require.NotErrorIs(t, l.Err(), relock.ErrClosed)
				if len(w.typ.names) > 1 { // the other member is held until the group is unlocked
					require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
				}
				<-ended // with an error if Redis does not answer
				require.Less(t, time.Since(start), lease+10*time.Second)
				require.ErrorIs(t, l.Err(), relock.ErrLost)
			})
		})
	}
}

// Close during Shutdown ends both at once; a second Shutdown waits like the first.
func TestShutdownAndCloseAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		l := p.held()
		ctx, cancel := context.WithTimeout(background, time.Second)
		first, second := p.shutdown(background), p.shutdown(background)
		time.Sleep(time.Minute)
		require.Empty(t, first)
		require.Empty(t, second)
		defer cancel()
		require.NoError(t, kit.Together(len(p.s), func(i int) error { return p.s[i].Close(background) }))
		require.NoError(t, <-first)
		require.NoError(t, <-second)
		require.NoError(t, <-p.shutdown(ctx), "after Close it has nothing to wait for")
		require.ErrorIs(t, l.Err(), relock.ErrClosed)
		require.True(t, w.free())
	})
}

// The first Shutdown whose context ends closes for all.
func TestShutdownsEachHaveTheirContext(t *testing.T) {
	alone(t, &lockTypes[0], func(t *testing.T, w *world) {
		p := w.process()
		p.held()
		ctx, cancel := context.WithTimeout(background, time.Minute)
		defer cancel()
		patient := p.shutdown(background)
		require.ErrorIs(t, <-p.shutdown(ctx), context.DeadlineExceeded)
		require.NoError(t, <-patient)
	})
}

// What Shutdown waits for includes a hold that is on its way to another process, and its ticket is good.
func TestShutdownWaitsForAHandoff(t *testing.T) {
	alone(t, &lockTypes[0], func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		m, err := p.s[0].Mutex("a").Acquire(background)
		require.NoError(t, err)
		p.delay(time.Second)
		ended := p.shutdown(background)
		ticket := ""
		handed := kit.Async(func() (err error) { ticket, err = m.Handoff(background, time.Minute); return err })
		require.NoError(t, <-ended)
		synctest.Wait()
		require.NoError(t, <-handed)
		adopted, err := other.s[0].Adopt(background, ticket)
		require.NoError(t, err)
		require.NoError(t, adopted.Unlock(background))
	})
}

// A ticket that a session that shuts down refuses is not used up.
func TestShutdownAdoptsNothing(t *testing.T) {
	alone(t, &lockTypes[0], func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		m, err := other.s[0].Mutex("a").Acquire(background)
		require.NoError(t, err)
		ticket, err := m.Handoff(background, time.Minute)
		require.NoError(t, err)
		require.NoError(t, p.s[0].Mutex("b").Lock(background))
		p.shutdown(background)
		synctest.Wait()
		_, err = p.s[0].Adopt(background, ticket)
		require.ErrorIs(t, err, relock.ErrClosed)
		_, err = other.s[0].Adopt(background, ticket)
		require.NoError(t, err)
		require.NoError(t, p.s[0].Close(background))
	})
}

// What is only kept is released at once, though other holds go on; and what is unlocked is not kept any more.
func TestShutdownKeepsNothing(t *testing.T) {
	alone(t, &lockTypes[0], func(t *testing.T, w *world) {
		p := w.process()
		kept, held := p.s[0].Mutex("a", relock.WithKeep(time.Hour)), p.s[0].Mutex("b", relock.WithKeep(time.Hour))
		require.NoError(t, kept.Lock(background))
		require.NoError(t, held.Lock(background))
		require.NoError(t, kept.Unlock(background))
		synctest.Wait()
		require.True(t, w.has("a"))
		ended := p.shutdown(background)
		synctest.Wait()
		require.False(t, w.has("a"), "kept")
		require.True(t, w.has("b"))
		require.NoError(t, held.Unlock(background))
		require.NoError(t, <-ended)
		require.False(t, w.has("b"))
	})
}

// An owner that writes may still read, to go on as a reader: it has the lock.
func TestShutdownLetsAWriterRead(t *testing.T) {
	alone(t, reader, func(t *testing.T, w *world) {
		p := w.process()
		rw, owner := p.s[0].RWMutex("a"), p.s[0].NewContext(background)
		require.NoError(t, rw.Lock(owner))
		ended := p.shutdown(background)
		synctest.Wait()
		require.NoError(t, rw.RLock(owner))
		require.NoError(t, rw.Unlock(owner))
		require.NoError(t, rw.RLock(owner))
		require.NoError(t, rw.RUnlock(owner))
		synctest.Wait()
		require.Empty(t, ended)
		require.NoError(t, rw.RUnlock(owner))
		require.NoError(t, <-ended)
	})
}

// Several permits through one handle of a semaphore: each ends with its own Unlock.
func TestShutdownWaitsForEachPermit(t *testing.T) {
	alone(t, semaphore, func(t *testing.T, w *world) {
		p := w.process()
		m := p.s[0].Semaphore("a", 3)
		for range 3 {
			require.NoError(t, m.Lock(background))
		}
		ended := p.shutdown(background)
		for range 3 {
			synctest.Wait()
			require.Empty(t, ended)
			require.NoError(t, m.Unlock(background))
		}
		require.NoError(t, <-ended)
	})
}

// Shutdown of one session of a Redlock waits for the hold's part there; then the Redlock goes on with the others.
func TestRedlockGoesOnWhileAMinorityShutsDown(t *testing.T) {
	alone(t, &lockTypes[6], func(t *testing.T, w *world) {
		p := w.process()
		held := p.held()
		ended := kit.Async(func() error { return p.s[0].Shutdown(background) })
		time.Sleep(time.Minute)
		require.Empty(t, ended, "the hold has a part there")
		require.NoError(t, held.Err())
		require.NoError(t, held.Unlock(background))
		require.NoError(t, <-ended)
		require.NoError(t, p.lock().Lock(background))
	})
}

// While holds come and go, Shutdown takes none of them away, and none begins after it.
func TestShutdownUnderLoad(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		var lost, sections atomic.Int64
		var workers []<-chan error
		for i := range 8 {
			workers = append(workers, kit.Async(func() error {
				for j := 0; ; j++ {
					err := relock.Do(background, p.lock(), func(ctx context.Context) error {
						sections.Add(1)
						select {
						case <-time.After(time.Duration(1+(i+j)%5) * 10 * time.Millisecond):
						case <-ctx.Done():
							lost.Add(1)
						}
						return nil
					})
					if err != nil {
						return err
					}
				}
			}))
		}
		time.Sleep(3 * time.Second)
		require.NoError(t, <-p.shutdown(background))
		for i, err := range workers {
			require.ErrorIs(t, <-err, relock.ErrClosed, fmt.Sprint(i))
		}
		require.Zero(t, lost.Load())
		require.NotZero(t, sections.Load())
		require.True(t, w.free())
	})
}
