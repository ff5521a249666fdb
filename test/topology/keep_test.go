package topology_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// keepers are two sessions, of which one keeps locks that the other wants.
type keepers struct{ keeps, wants *relock.Session }

var keepHour = relock.WithKeep(time.Hour)

// kept locks and unlocks a Mutex of the first, which keeps it.
func (k keepers) kept(t testing.TB, name string) *relock.Mutex {
	t.Helper()
	l := k.keeps.Mutex(name, keepHour)
	kit.Lock(t, kit.Background, l)
	require.NoError(t, l.Unlock(kit.Background))
	state, err := k.keeps.Inspect(kit.Background, name)
	require.NoError(t, err)
	require.Equal(t, relock.Exclusive, state.Mode, "%s is not kept", name)
	return l
}

// recalled has the other session get a lock that is kept, and one in use.
func (k keepers) recalled(t testing.TB, name string) {
	t.Helper()
	k.kept(t, name)
	start := time.Now()
	m := k.wants.Mutex(name)
	kit.Lock(t, kit.Background, m)
	require.NoError(t, m.Unlock(kit.Background))
	t.Logf("%s: recalled by Lock in %v", name, time.Since(start))

	used := name + " used"
	h := kit.Acquire(t, kit.Background, k.kept(t, used))
	m = k.wants.Mutex(used, keepHour)
	ok, err := m.TryLock(kit.Background)
	require.NoError(t, err)
	require.False(t, ok)
	redistest.Eventually(t, kit.Soon, used+" to be wanted", func() bool { return kit.IsClosed(h.Wanted()) })
	require.NoError(t, h.Unlock(kit.Background))

	tried := name + " tried"
	k.kept(t, tried)
	m = k.wants.Mutex(tried, keepHour)
	start = time.Now()
	redistest.Eventually(t, kit.Soon, "a TryLock of "+tried, func() bool { // a busy machine may need longer than 250 ms
		ok, err := m.TryLock(kit.Background)
		require.NoError(t, err)
		return ok
	})
	t.Logf("%s: recalled by TryLock in %v", name, time.Since(start))
	require.NoError(t, m.Unlock(kit.Background))
}

func TestKeptLocksAreRecalledInACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	k := keepers{kit.SessionOn(t, c.Client(t)), kit.SessionOn(t, c.Client(t))}
	for i, node := range c.Masters() {
		for j := range 5 {
			k.recalled(t, nameOn(c, node, fmt.Sprint("lock ", i, j)))
		}
	}
}

func TestKeptLocksAreRecalledAfterAFailover(t *testing.T) {
	t.Parallel()
	d := redistest.StartSentinel(t)
	k := keepers{kit.SessionOn(t, d.Client(t)), kit.SessionOn(t, d.Client(t))}
	k.recalled(t, "before")
	k.kept(t, "during")
	inStep(t, d.Primary(), 2)
	_, err := d.Failover()
	require.NoError(t, err)
	m := k.wants.Mutex("during")
	kit.Lock(t, kit.Background, m)
	require.NoError(t, m.Unlock(kit.Background))
	redistest.Eventually(t, kit.Soon, "locks to be kept again", func() bool {
		l := k.keeps.Mutex("after", keepHour)
		kit.Lock(t, kit.Background, l)
		require.NoError(t, l.Unlock(kit.Background))
		state, err := k.keeps.Inspect(kit.Background, "after")
		return err == nil && state.Mode == relock.Exclusive
	})
	k.recalled(t, "later")
}
