package virtual_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/relock-go/relock"
)

// Goroutines of one owner that lock and unlock at once: a Lock that returns nil holds the lock, and an Acquire that
// returns no error returns a hold.
func TestGoroutinesOfAnOwnerThatLockAtOnceHoldTheLock(t *testing.T) {
	t.Parallel()
	for i := range lockTypes {
		t.Run(lockTypes[i].name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, &lockTypes[i])
				p := w.process()
				var locks, nothing atomic.Int64
				var first atomic.Value
				for range 80 {
					ctx := p.s[0].NewContext(background)
					var wg sync.WaitGroup
					l := p.lock()
					for i := range 8 {
						wg.Go(func() {
							a := p.acquirer()
							if i%2 == 0 {
								if assert.NoError(t, l.Lock(ctx)) {
									locks.Add(1)
									if err := l.Unlock(ctx); err != nil {
										nothing.Add(1)
										first.CompareAndSwap(nil, "after a Lock that returned nil: "+err.Error())
									}
								}
								return
							}
							if assert.NoError(t, a.Lock(ctx)) {
								locks.Add(1)
								if err := a.Unlock(ctx); err != nil {
									nothing.Add(1)
									first.CompareAndSwap(nil, "after an Acquire that returned no error: "+err.Error())
								}
							}
						})
					}
					wg.Wait()
				}
				assert.Zero(t, nothing.Load(), "of %d: %v", locks.Load(), first.Load())
				time.Sleep(time.Second)
			})
		})
	}
}

// Do: Lock of the lock that it holds returns ErrDeadlock "unless its owner is the same, or both only read", and does not
// wait for itself.
func TestDoThatReadsInsideDoThatReads(t *testing.T) {
	for what, o := range map[string][2][]relock.LockOption{
		"plain":        {nil, nil},
		"outer leased": {{relock.WithLease(5 * time.Second)}, nil},
		"inner leased": {nil, {relock.WithLease(5 * time.Second)}},
		"both leased":  {{relock.WithLease(5 * time.Second)}, {relock.WithLease(5 * time.Second)}},
		"outer fixed":  {{relock.WithFixedLease(time.Hour)}, nil},
		"inner fixed":  {nil, {relock.WithFixedLease(time.Hour)}},
	} {
		t.Run(what, func(t *testing.T) {
			alone(t, reader, func(t *testing.T, w *world) {
				p, other := w.process(), w.process()
				ctx, cancel := context.WithTimeout(background, time.Minute)
				defer cancel()
				var done <-chan error
				err := relock.Do(ctx, p.lock(o[0]...), func(ctx context.Context) error {
					done = lockAndUnlock(writer.make(other.s))
					time.Sleep(time.Second)
					synctest.Wait()
					return relock.Do(ctx, p.lock(o[1]...), func(context.Context) error { return nil })
				})
				assert.NoError(t, err)
				assert.NoError(t, <-done)
			})
		})
	}
}
