package relock_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Two goroutines of one owner are let in together when the lock is passed on; each
// starts the bound of WithMaxHold anew. They did so without excluding each other: a
// data race.
func TestMaxHoldWhenOneOwnerIsLetInTwice(t *testing.T) {
	t.Parallel()
	m, _ := redistest.Mini(t)
	s := newSession(t, m, relock.WithTenure(time.Hour))
	for range 20 {
		first, second := s.Mutex("a"), s.Mutex("a", relock.WithMaxHold(time.Hour))
		lock(t, background, first)
		ctx := s.NewContext(background)
		got := async(func() error {
			return together(4, func(int) error { return second.Lock(ctx) })
		})
		redistest.Eventually(t, soon, "the owner to queue", func() bool { return peek.Queued(s, "a") == 4 })
		unlock(t, background, first)
		require.NoError(t, receive(t, got, "the owner's goroutines"))
		for range 4 {
			unlock(t, ctx, second)
		}
	}
}
