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
	"the token has moved": func(string) []string { return []string{"relock_fence"} },
	"everything has moved": func(name string) []string {
		return []string{name, "relock_fence", "relock_queue", "relock_rwqueue", "relock_readers", "{" + name + "}"}
	},
	"the list of readers has moved": func(string) []string { return []string{"relock_readers"} },
	"all but the list of readers has moved": func(name string) []string {
		return []string{name, "relock_fence", "relock_queue", "relock_rwqueue", "{" + name + "}"}
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

// letsGo checks that Unlock ends a hold, long before its lease does.
func letsGo(t testing.TB, l relock.Locker, name string) {
	t.Helper()
	start := time.Now()
	require.NoError(t, kit.Receive(t, kit.Async(func() error { return l.Unlock(kit.Background) }), "the unlock of "+name))
	t.Logf("%s: unlocked after %v", name, time.Since(start))
}

// Unlock ends a hold although its slot is half moved, and the waiters enter once it is
// whole.
func TestALockOfAHalfMovedSlotIsReleased(t *testing.T) {
	t.Parallel()
	c, join := movingCluster(t)
	a, b := join(), join()
	for how, moved := range halfMoves {
		for _, p := range pairings {
			if p.kinds == "Group of all kinds" {
				continue // the moves below are those of one name
			}
			name := how + " " + p.kinds
			held, waiting := p.holds(a, name), p.waits(b, name)
			kit.Lock(t, kit.Background, held)
			got := kit.Async(func() error { return waiting.Lock(kit.Background) })
			redistest.Eventually(t, kit.Soon, "somebody to wait for "+name, func() bool { return peek.Waits(b[0], name) })
			m := halfMove(t, c, name, moved(name)...)
			letsGo(t, held, name)
			require.NoError(t, m.Finish())
			require.NoError(t, kit.Receive(t, got, name+": the waiter to enter"))
			kit.Unlock(t, kit.Background, waiting)
			onNone(t, c, name)
		}
	}
}

// A Lock that begins while the slot is half moved waits, whoever has the lock, and an Unlock of a
// hold that is gone says so.
func TestALockOfAHalfMovedSlotIsWaitedFor(t *testing.T) {
	t.Parallel()
	c, join := movingCluster(t)
	a, b := join(), join()
	for how, moved := range halfMoves {
		for _, p := range pairings {
			if p.kinds == "Group of all kinds" {
				continue
			}
			name := how + " " + p.kinds
			held, waiting := p.holds(a, name), p.waits(b, name)
			kit.Lock(t, kit.Background, held)
			m := halfMove(t, c, name, moved(name)...)
			got := kit.Async(func() error { return waiting.Lock(kit.Background) })
			select {
			case err := <-got:
				require.Fail(t, "it did not wait", "%s: %v", name, err)
			case <-time.After(100 * time.Millisecond):
			}
			letsGo(t, held, name)
			require.NoError(t, m.Finish())
			require.NoError(t, kit.Receive(t, got, name+": the waiter to enter"))
			kit.Unlock(t, kit.Background, waiting)
			onNone(t, c, name)
		}
	}

	mutex := a[0].Mutex("gone")
	kit.Lock(t, kit.Background, mutex)
	m := halfMove(t, c, "gone")
	_, err := c.NodeForKey("gone").Do("HSET", "gone", "another", "1")
	require.NoError(t, err)
	_, err = c.NodeForKey("gone").Do("HDEL", "gone", fieldOf(t, c.NodeForKey("gone"), "gone"))
	require.NoError(t, err)
	require.ErrorIs(t, mutex.Unlock(kit.Background), relock.ErrLost)
	require.NoError(t, m.Finish())
}

// fieldOf returns the hold id that a lock has.
func fieldOf(t testing.TB, s *redistest.Server, name string) string {
	t.Helper()
	reply, err := s.Do("HKEYS", name)
	require.NoError(t, err)
	fields, _ := reply.([]any)
	for _, f := range fields {
		if id := f.(string); strings.Contains(id, ":") {
			return id
		}
	}
	require.Fail(t, name+" has no hold")
	return ""
}

// The same without anybody who waits: nothing of the hold is left on any node.
func TestNothingIsLeftOfALockOfAHalfMovedSlot(t *testing.T) {
	t.Parallel()
	c, join := movingCluster(t)
	a := join()
	for how, moved := range halfMoves {
		for _, p := range pairings {
			name := how + " " + p.kinds
			held := p.holds(a, name)
			kit.Lock(t, kit.Background, held)
			m := halfMove(t, c, name, moved(name)...)
			letsGo(t, held, name)
			for _, s := range c.Masters() {
				for _, key := range keysOn(t, s) {
					stays := strings.HasPrefix(key, "relock_fence:") || strings.HasPrefix(key, "relock_session:")
					require.True(t, stays, "%s has left %s", name, key)
				}
			}
			require.NoError(t, m.Finish())
		}
	}
}

// A writer that reads on, and readers beside the one that unlocks, keep the lock.
func TestReadersGoOnInAHalfMovedSlot(t *testing.T) {
	t.Parallel()
	c, join := movingCluster(t)
	a, b := join()[0], join()[0]
	for how, moved := range halfMoves {
		name := "downgraded, " + how
		rw := a.RWMutex(name)
		owner := a.NewContext(kit.Background)
		kit.Lock(t, owner, rw)
		kit.Lock(t, owner, rw.RLocker())
		m := halfMove(t, c, name, moved(name)...)
		kit.Unlock(t, owner, rw)
		require.NoError(t, m.Finish())
		require.NoError(t, rw.RLocker().Err(), name)
		require.False(t, kit.TryLock(t, kit.Background, b.RWMutex(name)), name)
		reader := b.RWMutex(name).RLocker()
		require.True(t, kit.TryLock(t, kit.Background, reader), name)

		m = halfMove(t, c, name, moved(name)...)
		kit.Unlock(t, owner, rw.RLocker())
		require.NoError(t, m.Finish())
		require.NoError(t, reader.Err(), name)
		require.False(t, kit.TryLock(t, kit.Background, a.RWMutex(name)), name)
		m = halfMove(t, c, name, moved(name)...)
		kit.Unlock(t, kit.Background, reader)
		onNone(t, c, name)
		require.NoError(t, m.Finish())
		require.True(t, kit.TryLock(t, kit.Background, rw), name)
		kit.Unlock(t, kit.Background, rw)
	}
}

// A call that gives up, and a session that closes, leave nothing in a half moved slot.
func TestACloseReleasesInAHalfMovedSlot(t *testing.T) {
	t.Parallel()
	c, join := movingCluster(t)
	for how, moved := range halfMoves {
		a, b := join()[0], join()[0]
		name := "{closed, " + how + "}"
		names := []string{name + "m", name + "f", name + "w", name + "r"}
		holds := []relock.Locker{a.Mutex(name + "m"), a.FairMutex(name + "f"), a.RWMutex(name + "w"), a.RWMutex(name + "r").RLocker()}
		waits := []relock.Locker{b.Mutex(name + "m"), b.FairMutex(name + "f"), b.RWMutex(name + "w"), b.RWMutex(name + "r")}
		ctx, cancel := kit.ContextFor(time.Hour)
		var gaveUp []<-chan error
		for i, l := range holds {
			kit.Lock(t, kit.Background, l)
			gaveUp = append(gaveUp, kit.Async(func() error { return waits[i].Lock(ctx) }))
			redistest.Eventually(t, kit.Soon, "somebody to wait", func() bool { return peek.Waits(b, names[i]) })
		}
		var gone []string
		for _, name := range names {
			gone = append(gone, moved(name)...)
		}
		m := halfMove(t, c, name, gone...)
		cancel()
		for _, err := range gaveUp {
			require.Error(t, kit.Receive(t, err, "a waiter to give up"))
		}
		closing, stop := kit.ContextFor(kit.Soon)
		require.NoError(t, a.Close(closing), how)
		stop()
		for _, name := range names {
			onNone(t, c, name)
			onNone(t, c, "relock_queue:"+name)
		}
		require.NoError(t, m.Finish())
		for _, l := range waits {
			require.True(t, kit.TryLock(t, kit.Background, l), how)
			kit.Unlock(t, kit.Background, l)
		}
	}
}
