package locks_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Holds that expire and that nobody unlocks cost nothing once their handles, and the contexts of
// their owners, are garbage. Each cost 720 bytes until Close.
func TestExpiredHoldsThatNobodyUnlocksLeaveNoMemory(t *testing.T) {
	const handles = 20_000
	s := kit.NewSession(t, redistest.Start(t))
	heap := func() uint64 {
		var m runtime.MemStats
		for range 3 {
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const goroutines = 64
	expire := func(round string, n int) {
		require.NoError(t, kit.Together(goroutines, func(g int) error {
			for i := g; i < n; i += goroutines {
				ctx := kit.Background
				if i/kindsOfHandle%2 == 0 {
					ctx = s.NewContext(ctx)
				}
				l := lockOf(s, i, fmt.Sprint(round, ":", i))
				if err := l.Lock(ctx); err != nil {
					return err
				}
			}
			return nil
		}))
		last := s.Mutex("last", relock.WithFixedLease(expires))
		kit.Lock(t, kit.Background, last)
		kit.Receive(t, last.Done(), "the last one to expire")
	}
	expire("first", 5_000) // tables and stacks grow once
	before := heap()
	expire("then", handles)
	var grown int64
	for range 50 { // what is registered may end a moment later
		if grown = int64(heap() - before); grown < int64(handles)*150 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Logf("%d bytes each", grown/int64(handles))
	require.Less(t, grown, int64(handles)*150, "bytes in all")
	runtime.KeepAlive(s)
}

const (
	expires       = 200 * time.Millisecond
	kindsOfHandle = 6
)

// lockOf returns a lock with a fixed lease, of each type in turn.
func lockOf(s *relock.Session, i int, name string) relock.Locker {
	fixed := relock.WithFixedLease(expires)
	switch i % kindsOfHandle {
	case 0:
		return s.FairMutex(name, fixed)
	case 1:
		return s.RWMutex(name, fixed)
	case 2:
		return s.RWMutex(name, fixed).RLocker()
	case 3:
		return relock.NewGroup(s.Mutex(name, fixed))
	case 4:
		return relock.NewRedlock([]*relock.Session{s}, name, fixed)
	}
	return s.Mutex(name, fixed)
}
