package virtual_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
)

// Redis does not answer. A TryLock beside a Lock of the process that waits for Redis: it is not known whether the lock is taken.
func TestTryLockBesideALockInAnOutage(t *testing.T) {
	for what, fault := range outages {
		for _, after := range []time.Duration{0, 10 * time.Second} {
			t.Run(what+after.String(), func(t *testing.T) {
				onEach(t, func(t *testing.T, w *world) {
					p := w.process()
					p.networks(fault)
					ctx, cancel := context.WithCancel(background)
					first := begin(ctx, p.lock())
					time.Sleep(time.Second + after)
					_, err := p.lock().(kit.Acquirer).TryAcquire(background)
					assert.NotErrorIs(t, err, relock.ErrTaken, "nobody has the lock")
					cancel()
					<-first
					p.heal()
				})
			})
		}
	}
}

// An owner's TryLock while its other goroutine's call is under way, of a free lock.
func TestTryLockOfAnOwnerBesideItsLock(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		p.delay(5 * time.Millisecond)
		ctx := p.s[0].NewContext(background)
		l := p.lock()
		first := begin(ctx, l)
		time.Sleep(time.Millisecond)
		_, err := p.lock().(kit.Acquirer).TryAcquire(ctx)
		assert.NotErrorIs(t, err, relock.ErrTaken, "nobody else has the lock")
		require.NoError(t, <-first)
	})
}
