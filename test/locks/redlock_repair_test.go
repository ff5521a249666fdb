package locks_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/stretchr/testify/require"
)

// hook is called at the next acquisition of a session.
type hook struct {
	relock.NopObserver
	f atomic.Pointer[func()]
}

func (h *hook) Acquired(_ context.Context, _ relock.AcquireEvent) {
	if f := h.f.Swap(nil); f != nil {
		(*f)()
	}
}

// Unlock comes when a part has just been had again, before the hold knows. It is given
// back: else it would be renewed for ever.
func TestAnUnlockDuringARepairLeavesNothing(t *testing.T) {
	t.Parallel()
	const lease = 10 * time.Second // repairs begin after a twentieth of that
	var acquired hook
	p := newSite(t, 3, relock.WithLease(lease), relock.WithObserver(&acquired))
	r, other := p.redlock("lock"), p.more(t)[1]
	for range 5 {
		p.fully(t, r)
		unlocked := make(chan error, 1)
		f := func() {
			go func() { unlocked <- r.Unlock(kit.Background) }()
			time.Sleep(20 * time.Millisecond) // Unlock ends the repairs first, and waits for this one
		}
		acquired.f.Store(&f)
		was, err := other.ForceUnlock(kit.Background, "lock")
		require.NoError(t, err)
		require.True(t, was)
		require.NoError(t, kit.Receive(t, unlocked, "Unlock"))
		p.nothingLeft(t)
	}
	kit.Lock(t, kit.Background, r)
	kit.Unlock(t, kit.Background, r)
	p.nothingLeft(t)
}
