package virtual_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Close blocks until everything is released, or says what is not: an unlock whose release was not confirmed counts.
func TestCloseTellsOfUnconfirmedUnlocks(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		l := p.held()
		synctest.Wait()
		heal := p.partition()
		require.NoError(t, l.Unlock(background)) // 2 s
		ctx, cancel := context.WithTimeout(background, 10*time.Second)
		defer cancel()
		var errs []error
		for _, s := range p.s {
			errs = append(errs, s.Close(ctx))
		}
		left := !w.free()
		heal()
		none := true
		for _, err := range errs {
			none = none && err == nil
		}
		require.False(t, left && none, "Close returned nil, the lock is still in Redis")
	})
}

// The same when Redis is back well within ctx: Close gives up on it.
func TestCloseReleasesWhatAnUnlockLeft(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		l := p.held()
		synctest.Wait()
		heal := p.partition()
		require.NoError(t, l.Unlock(background)) // 2 s
		time.AfterFunc(time.Second, heal)
		ctx, cancel := context.WithTimeout(background, 10*time.Second)
		defer cancel()
		var errs []error
		for _, s := range p.s {
			errs = append(errs, s.Close(ctx))
		}
		time.Sleep(3 * time.Second)
		require.True(t, w.free(), "left behind, 3 s after Close: %v", errs)
	})
}
