package locks_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Two goroutines of one owner are let in together when the lock is passed on; each
// starts the bound of WithMaxHold anew. They did so without excluding each other: a
// data race.
func TestMaxHoldWhenOneOwnerEntersTwice(t *testing.T) {
	t.Parallel()
	m, _ := redistest.Mini(t)
	s := kit.NewSession(t, m, relock.WithTenure(time.Hour))
	for range 20 {
		first, second := s.Mutex("a"), s.Mutex("a", relock.WithMaxHold(time.Hour))
		kit.Lock(t, kit.Background, first)
		ctx := s.NewContext(kit.Background)
		got := kit.Async(func() error {
			return kit.Together(4, func(int) error { return second.Lock(ctx) })
		})
		redistest.Eventually(t, kit.Soon, "the owner to queue", func() bool { return peek.Queued(s, "a") == 4 })
		kit.Unlock(t, kit.Background, first)
		require.NoError(t, kit.Receive(t, got, "the owner's goroutines"))
		for range 4 {
			kit.Unlock(t, ctx, second)
		}
	}
}
