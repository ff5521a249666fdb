package locks_test

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/stretchr/testify/require"
)

// Two goroutines share an owner, whose hold was lost. An unlock without an owner was counted for
// it, and may have been that of another hold, which was lost as well and awaits one more. One of
// the two goroutines waits, is handed the lock, and gives up at that moment; the other has ended
// that hold with its late unlock before. What the first one gives back is the unlock that is
// still due. Otherwise it would be due for ever.
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
				force := func() {
					for _, s := range ss {
						_, err := s.ForceUnlock(kit.Background, "lock")
						require.NoError(t, err)
					}
					kit.Receive(t, l.Done(), "the loss")
				}
				force()
				kit.Lock(t, kit.Background, l)
				require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrLost)
				require.NoError(t, l.Err(), "it may have been the late unlock")
				force()
				time.Sleep(5 * time.Millisecond) // the clock passes the last token
				kit.Lock(t, kit.Background, other)
				ctx, cancel := context.WithCancel(owner)
				err := waits.Lock(&waitHook{Context: ctx, f: func() {
					cancel()
					kit.Unlock(t, kit.Background, other) // hands it over
					kit.Unlock(t, owner, l)              // ends that
				}})
				if err == nil {
					require.ErrorIs(t, waits.Unlock(owner), relock.ErrLost, "its hold has been ended")
				} else {
					require.ErrorIs(t, err, context.Canceled)
					gaveUp++
				}
				require.True(t, kit.TryLock(t, kit.Background, l), "no unlock is due any more")
				kit.Unlock(t, kit.Background, l)
			}
		})
	}
}
