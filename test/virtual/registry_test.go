package virtual_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/peek"
)

// A session forgets the lease of a lock that was unlocked, lost, or not granted.
func TestLeasesThatAreOverAreForgotten(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		l := p.held()
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		require.Error(t, other.opposite().Lock(ctx))
		_, _ = other.opposite().TryLock(background)
		require.NoError(t, l.Unlock(background))
		heal := p.partition()
		require.Error(t, p.lock(relock.WithWait(time.Second)).Lock(background))
		heal()
		time.Sleep(2 * lease)
		l = p.held()
		time.Sleep(time.Second)
		p.force()
		time.Sleep(lease)
		require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
		l = p.held()
		heal = p.partition()
		time.Sleep(2 * lease)
		heal()
		require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
		time.Sleep(2 * lease)
		for _, of := range []*process{p, other} {
			for _, s := range of.s {
				require.Zero(t, peek.Session(s).Leases.Len())
			}
		}
	})
}
