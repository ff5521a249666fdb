package faults_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// The message that a lock was forced open may overtake the reply that grants it, as they
// come on different connections. The holder was told by its next renewal only.
func TestForceIsReportedThoughItOvertakesTheGrant(t *testing.T) {
	t.Parallel()
	server, proxy := kit.Proxied(t)
	s, by := kit.NewSession(t, proxy), kit.NewSession(t, server)
	client := kit.NewClient(t, server)
	kit.Lock(t, kit.Background, s.Mutex("first")) // connections are made, scripts are loaded
	for round := range 40 {
		for kind, l := range map[string]relock.Locker{
			"mutex": s.Mutex(fmt.Sprint("mutex ", round)), "fair": s.FairMutex(fmt.Sprint("fair ", round)),
			"write": s.RWMutex(fmt.Sprint("write ", round)), "read": s.RWMutex(fmt.Sprint("read ", round)).RLocker(),
		} {
			name := fmt.Sprint(kind, " ", round)
			proxy.Delay(5 * time.Millisecond)
			locked := kit.Async(func() error { return l.Lock(kit.Background) })
			redistest.Eventually(t, kit.Soon, "the lock in Redis", func() bool { return kit.Exists(t, client, name) })
			proxy.Stall(true)
			was, err := by.ForceUnlock(kit.Background, name)
			require.NoError(t, err)
			require.True(t, was)
			proxy.Delay(0)
			proxy.Stall(false)
			require.NoError(t, kit.Receive(t, locked, "the lock"))
			select {
			case <-l.Done():
			case <-time.After(kit.Quickly):
				t.Fatalf("round %d: the holder of %s was not told", round, name)
			}
			require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrLost)
		}
	}
}
