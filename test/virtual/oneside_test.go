package virtual_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/relocktest"
)

// An owner whose hold was lost gets ErrLost from Lock and TryLock of that lock, of either side of an RWMutex,
// until it has unlocked: it used to enter the side that was left again.
func TestOwnerThatLostOneSideMustUnlockFirst(t *testing.T) {
	for _, lostSide := range []string{"write", "read"} {
		t.Run(lostSide, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := relocktest.New(t).Session()
				short, long := s.RWMutex("a", relock.WithMaxHold(time.Second)), s.RWMutex("a")
				w, r := relock.Locker(short), long.RLocker()
				if lostSide == "read" {
					w, r = long, short.RLocker()
				}
				ctx := s.NewContext(background)
				require.NoError(t, w.Lock(ctx))
				require.NoError(t, r.Lock(ctx))
				time.Sleep(2 * time.Second)
				left := r
				if lostSide == "read" {
					require.ErrorIs(t, r.Err(), relock.ErrLost)
					left = w
				} else {
					require.ErrorIs(t, w.Err(), relock.ErrLost)
				}
				require.NoError(t, left.Err())
				ok, err := left.TryLock(ctx)
				require.ErrorIs(t, err, relock.ErrLost, "TryLock %v", ok)
				require.ErrorIs(t, left.Lock(ctx), relock.ErrLost)
			})
		})
	}
}
