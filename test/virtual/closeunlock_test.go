package virtual_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// closeAfterOutage unlocks a hold while Redis does not answer, and then closes its process. The network is back after a
// time.
func (w *world) closeAfterOutage(after time.Duration) error {
	p := w.process()
	l := p.held()
	synctest.Wait()
	heal := p.partition()
	require.NoError(w.t, l.Unlock(background)) // gives up after 2 s
	time.AfterFunc(after, heal)
	ctx, cancel := context.WithTimeout(background, 10*time.Second)
	defer cancel()
	var errs []error
	for _, s := range p.s {
		errs = append(errs, s.Close(ctx))
	}
	return errors.Join(errs...)
}

// Close names what is not released, also if an Unlock was to release it.
func TestCloseTellsOfUnconfirmedUnlocks(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		err := w.closeAfterOutage(time.Hour)
		require.True(t, err != nil || w.free(), "Close returned nil, and the lock is still in Redis")
	})
}

func TestCloseReleasesWhatAnUnlockLeft(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		err := w.closeAfterOutage(time.Second)
		time.Sleep(3 * time.Second)
		require.True(t, w.free(), "left behind, 3 s after Close: %v", err)
	})
}
