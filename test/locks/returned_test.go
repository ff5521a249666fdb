package locks_test

import (
	"context"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/stretchr/testify/require"
)

// Regression: two goroutines share an owner. One of them waits, is handed the lock, and
// gives up at that moment; the other, whose own hold was lost, has ended that hold with
// its late unlock before. Meanwhile a goroutine without an owner has the lock, and its
// unlock was counted for the lost hold: so its hold is the one to be given back. The lease
// of the wrong one was released, and the lock was held for as long as the session lasted.
func TestACallThatGivesUpReleasesTheHoldThatItEnds(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]lateKind{"Mutex": lateKinds["Mutex"], "Redlock": lateKinds["Redlock"], "writer": lateKinds["writer"]} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ss := kind.sessions(t, relock.WithTenure(kit.Quickly))
			for gaveUp := 0; gaveUp < 3; { // of two things that have come to pass a call notices either
				l, other, waits := kind.of(ss), kind.of(ss), kind.of(ss)
				owner := ss[0].NewContext(kit.Background)
				kit.Lock(t, owner, l)
				for _, s := range ss {
					_, err := s.ForceUnlock(kit.Background, "lock")
					require.NoError(t, err)
				}
				kit.Receive(t, l.Done(), "the loss")
				kit.Lock(t, kit.Background, other)
				ctx, cancel := context.WithCancel(owner)
				err := waits.Lock(&waitHook{Context: ctx, f: func() {
					cancel()
					kit.Unlock(t, kit.Background, other) // hands it over
					kit.Unlock(t, owner, l)              // ends that
					kit.Lock(t, kit.Background, l)
					require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrLost)
					require.NoError(t, l.Err(), "it may have been the late unlock")
				}})
				if err == nil {
					require.Error(t, waits.Unlock(owner), "its hold has been ended")
				} else {
					require.ErrorIs(t, err, context.Canceled)
					gaveUp++
				}
				kit.Lock(t, kit.Background, other)
				kit.Unlock(t, kit.Background, other)
			}
		})
	}
}
