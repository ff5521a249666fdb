package virtual_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// A process is killed with many readers queued. The reader behind them must not believe that it has a lock that is free.
func TestReaderBehindManyDeadReaders(t *testing.T) {
	for _, n := range []int{1100} {
		for _, how := range []string{"release", "lease runs out", "try", "newcomer"} {
			t.Run(fmt.Sprint(n, how), func(t *testing.T) {
				alone(t, writer, func(t *testing.T, w *world) {
					holder, dead, live, third := w.process(), w.process(), w.process(), w.process()
					held := holder.held(relock.WithLease(lease))
					w.typ = reader
					for range n {
						go func() { _ = dead.lock(relock.WithLease(20 * time.Second)).Lock(background) }()
					}
					time.Sleep(100 * time.Millisecond)
					synctest.Wait()
					l := live.lock()
					var got <-chan error
					if how == "release" || how == "lease runs out" {
						got = begin(background, l)
						time.Sleep(time.Second)
					}
					dead.die(false)
					time.Sleep(10 * time.Millisecond)
					synctest.Wait()
					if how == "lease runs out" || how == "try" || how == "newcomer" {
						holder.die(true)
						time.Sleep(9 * time.Second) // the queue lives for 15 s, and the lock a lease
						w.do("PEXPIRE", "a", "1")
						time.Sleep(2 * time.Millisecond)
					} else {
						require.NoError(t, held.Unlock(background))
					}
					switch how {
					case "try":
						ok, err := l.TryLock(background)
						require.NoError(t, err)
						if !ok {
							t.Log("refused")
							return
						}
					case "newcomer":
						require.NoError(t, l.Lock(background))
					default:
						require.NoError(t, <-got)
					}
					assert.False(t, w.free(), "the reader believes that it has the lock, which is free")
					w.typ = writer
					x := third.lock()
					ok, err := x.TryLock(background)
					require.NoError(t, err)
					require.NoError(t, l.Err())
					require.False(t, ok, "a writer has the lock beside the reader")
				})
			})
		}
	}
}

// Readers with a minimum hold come and go. A writer waits for one phase of them, or two.
func TestWriterBehindReadersThatRest(t *testing.T) {
	for _, min := range []time.Duration{0, time.Second} {
		t.Run(min.String(), func(t *testing.T) {
			alone(t, writer, func(t *testing.T, w *world) {
				var stop atomic.Bool
				done := make(chan bool, 3)
				var turns atomic.Int64
				for range 3 {
					p := w.process()
					go func() {
						var o []relock.LockOption
						if min > 0 {
							o = append(o, relock.WithMinHold(min))
						}
						l := reader.make(p.s, o...)
						for !stop.Load() {
							assert.NoError(t, l.Lock(background))
							turns.Add(1)
							time.Sleep(50 * time.Millisecond)
							assert.NoError(t, l.Unlock(background))
						}
						done <- true
					}()
					time.Sleep(300 * time.Millisecond)
				}
				p := w.process()
				time.Sleep(3 * time.Second)
				start := time.Now()
				l := p.lock()
				got := begin(background, l)
				select {
				case err := <-got:
					require.NoError(t, err)
					require.NoError(t, l.Unlock(background))
					t.Log("waited", time.Since(start), turns.Load())
					assert.Less(t, time.Since(start), 5*time.Second)
				case <-time.After(10 * time.Minute):
					t.Errorf("the writer starves: %d reads in 10 minutes", turns.Load())
				}
				stop.Store(true)
				for range 3 {
					<-done
				}
				time.Sleep(2 * lease)
			})
		})
	}
}

// Two readers with a minimum hold of a second: the lock is free a second after.
func TestTwoReadersRest(t *testing.T) {
	alone(t, writer, func(t *testing.T, w *world) {
		a, b, c := w.process(), w.process(), w.process()
		start := time.Now()
		x, y := reader.make(a.s, relock.WithMinHold(time.Second)), reader.make(b.s, relock.WithMinHold(time.Second))
		require.NoError(t, x.Lock(background))
		require.NoError(t, y.Lock(background))
		require.NoError(t, x.Unlock(background))
		require.NoError(t, y.Unlock(background))
		require.NoError(t, c.lock().Lock(background))
		require.Less(t, time.Since(start), 3*time.Second)
	})
}

func TestDowngradeWithMinHold(t *testing.T) {
	alone(t, writer, func(t *testing.T, w *world) {
		a, b := w.process(), w.process()
		rw, owner := a.s[0].RWMutex("a", relock.WithMinHold(10*time.Second)), a.s[0].NewContext(background)
		require.NoError(t, rw.Lock(owner))
		require.NoError(t, rw.RLock(owner))
		require.NoError(t, rw.Unlock(owner))
		start := time.Now()
		other := reader.make(b.s)
		ctx, stop := context.WithTimeout(background, 2*time.Minute)
		defer stop()
		err := other.Lock(ctx)
		t.Log("reader", err, "after", time.Since(start), w.fields())
		if err == nil {
			require.NoError(t, other.Unlock(background))
		}
		require.NoError(t, rw.RUnlock(owner))
		start = time.Now()
		ctx, stop = context.WithTimeout(background, 2*time.Minute)
		defer stop()
		l := b.lock()
		err2 := l.Lock(ctx)
		t.Log("writer", err2, "after", time.Since(start), w.fields())
		_ = l.Unlock(background)
		time.Sleep(time.Minute)
		require.NoError(t, err)
		require.NoError(t, err2)
	})
}
