package topology_test

import (
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// halfMove has the slot of a name moved, and stops half-way: of the keys that there are
// now, those that contain one of parts are there already, and the others are here yet.
func halfMove(t testing.TB, c *redistest.Cluster, name string, parts ...string) *redistest.Migration {
	t.Helper()
	from := c.NodeForKey(name)
	m, err := c.BeginMigration(redistest.Slot(name), elsewhere(t, c, name))
	require.NoError(t, err)
	for _, key := range keysOn(t, from) {
		for _, part := range parts {
			if redistest.Slot(key) == redistest.Slot(name) && (key == part || strings.HasPrefix(key, part+":")) {
				require.NoError(t, m.Move(key))
				break
			}
		}
	}
	return m
}

func keysOn(t testing.TB, s *redistest.Server) (keys []string) {
	t.Helper()
	reply, err := s.Do("KEYS", "*")
	require.NoError(t, err)
	list, _ := reply.([]any)
	for _, key := range list {
		keys = append(keys, key.(string))
	}
	return keys
}

// onNone waits until no node has a key of that name.
func onNone(t testing.TB, c *redistest.Cluster, name string) {
	t.Helper()
	redistest.Eventually(t, kit.Quickly, name+" to be gone from every node", func() bool {
		for _, s := range c.Masters() {
			for _, key := range keysOn(t, s) {
				if key == name {
					return false
				}
			}
		}
		return true
	})
}

// halfMoves are the ways in which a slot may be half moved: which keys have gone.
var halfMoves = map[string]func(name string) []string{
	"the lock has moved": func(name string) []string { return []string{name} },
	"all but the lock has moved": func(name string) []string {
		return []string{"relock_fence", "relock_queue", "relock_rwqueue", "relock_readers", "{" + name + "}"}
	},
	"nothing has moved": func(string) []string { return nil },
}

// movingCluster starts a cluster for locks that are half moved. No lease ends by itself
// before its test does.
func movingCluster(t *testing.T) (*redistest.Cluster, func() party) {
	t.Helper()
	c := redistest.StartCluster(t, 3, 0)
	join := parties(t, c, relock.WithLease(2*time.Minute))
	return c, join
}

// eachHalfMove runs f for each way in which the slot of a lock may be half moved, and each two locks that
// exclude each other.
func eachHalfMove(t *testing.T, f func(t *testing.T, waits *relock.Session, name string, held, waiting relock.Locker, move func() *redistest.Migration)) {
	t.Parallel()
	c, join := movingCluster(t)
	a, b := join(), join()
	for how, moved := range halfMoves {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			for _, p := range pairings {
				if p.kinds == "Group of all kinds" {
					continue // the moves are those of one name
				}
				name := how + " " + p.kinds
				held, waiting := p.holds(a, name), p.waits(b, name)
				kit.Lock(t, kit.Background, held)
				f(t, b[0], name, held, waiting, func() *redistest.Migration { return halfMove(t, c, name, moved(name)...) })
				onNone(t, c, name)
			}
		})
	}
}

// Unlock in a half moved slot does not fail: the release is sent until the slot is whole, and then the
// waiters enter.
func TestReleaseGoesOnUntilAHalfMovedSlotIsWhole(t *testing.T) {
	eachHalfMove(t, func(t *testing.T, waits *relock.Session, name string, held, waiting relock.Locker, move func() *redistest.Migration) {
		got := kit.Async(func() error { return waiting.Lock(kit.Background) })
		redistest.Eventually(t, kit.Soon, "somebody to wait for "+name, func() bool { return peek.Waits(waits, name) })
		m := move()
		kit.Unlock(t, kit.Background, held)
		require.NoError(t, m.Finish())
		require.NoError(t, kit.Receive(t, got, name+": the waiter to enter"))
		kit.Unlock(t, kit.Background, waiting)
	})
}

// A Lock that begins while the slot is half moved waits, whoever has the lock.
func TestLockOfAHalfMovedSlotIsWaitedFor(t *testing.T) {
	eachHalfMove(t, func(t *testing.T, _ *relock.Session, name string, held, waiting relock.Locker, move func() *redistest.Migration) {
		m := move()
		got := kit.Async(func() error { return waiting.Lock(kit.Background) })
		select {
		case err := <-got:
			require.Fail(t, "it did not wait", "%s: %v", name, err)
		case <-time.After(100 * time.Millisecond):
		}
		require.NoError(t, m.Finish())
		kit.Unlock(t, kit.Background, held)
		require.NoError(t, kit.Receive(t, got, name+": the waiter to enter"))
		kit.Unlock(t, kit.Background, waiting)
	})
}
