package relock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// The message that a lock was forced open may overtake the reply that grants it, as they
// come on different connections. The holder was told by its next renewal only.
func TestForceIsToldThoughItOvertakesTheGrant(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	s, by := newSession(t, proxy), newSession(t, server)
	client := newClient(t, server)
	lock(t, background, s.Mutex("first")) // connections are made, scripts are loaded
	for round := range 40 {
		for kind, l := range map[string]relock.Locker{
			"mutex": s.Mutex(fmt.Sprint("mutex ", round)), "fair": s.FairMutex(fmt.Sprint("fair ", round)),
			"write": s.RWMutex(fmt.Sprint("write ", round)), "read": s.RWMutex(fmt.Sprint("read ", round)).RLocker(),
		} {
			name := fmt.Sprint(kind, " ", round)
			proxy.Delay(5 * time.Millisecond)
			locked := async(func() error { return l.Lock(background) })
			redistest.Eventually(t, soon, "the lock in Redis", func() bool { return exists(t, client, name) })
			proxy.Stall(true)
			was, err := by.ForceUnlock(background, name)
			require.NoError(t, err)
			require.True(t, was)
			proxy.Delay(0)
			proxy.Stall(false)
			require.NoError(t, receive(t, locked, "the lock"))
			select {
			case <-l.Done():
			case <-time.After(quickly):
				t.Fatalf("round %d: the holder of %s was not told", round, name)
			}
			require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
		}
	}
}
