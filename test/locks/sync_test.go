package locks_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A handle under SyncLocker passes what Go's own tests ask of sync.Mutex, sync.RWMutex and sync.Cond.

func syncMutex(t *testing.T, k *kind) (sync.Locker, relock.Locker) {
	l := k.of(k.sessions(t), "lock")
	return relock.SyncLocker(l), l
}

func TestSyncMutex(t *testing.T) {
	eachOf(t, func(t *testing.T, k *kind) {
		m, l := syncMutex(t, k)
		m.Lock()
		require.False(t, kit.TryLock(t, kit.Background, l))
		m.Unlock()
		require.True(t, kit.TryLock(t, kit.Background, l))
		m.Unlock()
		n, want := 0, atomic.Int64{}
		require.NoError(t, kit.Together(10, func(int) error {
			for i := range 30 {
				if i%3 > 0 {
					m.Lock()
				} else if ok, err := l.TryLock(kit.Background); !ok {
					if err != nil {
						return err
					}
					continue
				}
				n++
				want.Add(1)
				m.Unlock()
			}
			return nil
		}))
		require.EqualValues(t, want.Load(), n)
		require.Panics(t, m.Unlock)
	}, exclusive)
}

func TestSyncRWMutex(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, readers := range []int{1, 3, 10} {
		rw := kit.NewSession(t, server).RWMutex("lock")
		w, r := relock.SyncLocker(rw), relock.SyncLocker(rw.RLocker())
		var all sync.WaitGroup
		all.Add(readers)
		require.NoError(t, kit.Together(readers, func(int) error { // all at the same time
			r.Lock()
			all.Done()
			all.Wait()
			r.Unlock()
			return nil
		}))
		var activity atomic.Int32 // readers + 10000 × writers
		require.NoError(t, kit.Together(2+readers, func(i int) error {
			for range 50 {
				if i < 2 {
					w.Lock()
					if n := activity.Add(10000); n != 10000 {
						t.Errorf("a writer among %d", n)
					}
					activity.Add(-10000)
					w.Unlock()
					continue
				}
				r.Lock()
				if n := activity.Add(1); n < 1 || n >= 10000 {
					t.Errorf("a reader among %d", n)
				}
				activity.Add(-1)
				r.Unlock()
			}
			return nil
		}))
	}
}

// Two goroutines take turns by locking in one and unlocking in the other.
func TestSyncRLocker(t *testing.T) {
	t.Parallel()
	rw := kit.NewSession(t, redistest.Start(t)).RWMutex("lock")
	w, r := relock.SyncLocker(rw), relock.SyncLocker(rw.RLocker())
	written, read := make(chan bool, 1), make(chan bool, 1)
	const n = 10
	go func() {
		for range n {
			r.Lock()
			r.Lock()
			read <- true
			w.Lock()
			written <- true
		}
	}()
	for range n {
		kit.Receive(t, read, "the readers")
		r.Unlock()
		require.Empty(t, written, "a writer beside a reader")
		r.Unlock()
		kit.Receive(t, written, "the writer")
		require.Empty(t, read, "a reader beside a writer")
		w.Unlock()
	}
}

func TestSyncCond(t *testing.T) {
	eachOf(t, func(t *testing.T, k *kind) {
		m, _ := syncMutex(t, k)
		c, n := sync.NewCond(m), 10
		running, awake := make(chan int, n), make(chan int, n)
		for i := range n { // Signal wakes one, in order
			go func() {
				m.Lock()
				running <- i
				c.Wait()
				awake <- i
				m.Unlock()
			}()
			kit.Receive(t, running, "the goroutine to run")
		}
		for i := range n {
			require.Empty(t, awake)
			m.Lock()
			c.Signal()
			m.Unlock()
			require.Equal(t, i, kit.Receive(t, awake, "one to wake"))
		}

		exit := false
		for i := range n { // Broadcast wakes all, once
			go func() {
				m.Lock()
				for !exit {
					running <- i
					c.Wait()
					awake <- i
				}
				m.Unlock()
			}()
		}
		for round := range 5 {
			for range n {
				kit.Receive(t, running, "all to run")
			}
			require.Empty(t, awake)
			m.Lock()
			exit = round == 4
			c.Broadcast()
			m.Unlock()
			seen := make(map[int]bool)
			for range n {
				seen[kit.Receive(t, awake, "all to wake")] = true
			}
			require.Len(t, seen, n)
		}
		m.Lock() // after the last has left
		require.Empty(t, running)
		m.Unlock()
	}, exclusive)
}

// A loss is no misuse.
func TestSyncLockerPanicsWhereSyncWould(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s := kit.NewSession(t, at)
		m := s.Mutex("lock")
		l := relock.SyncLocker(m)
		panics := func(f func(), what string) {
			t.Helper()
			defer func() { require.Regexp(t, "^relock: .*"+what, recover().(string)) }()
			f()
		}
		panics(l.Unlock, "not held")
		l.Lock()
		require.NotPanics(t, l.Unlock)
		panics(l.Unlock, "not held")
		l.Lock()
		force(t, m, "lock", s)
		require.NotPanics(t, l.Unlock)
		panics(l.Unlock, "not held")
		panics(relock.SyncLocker(s.Mutex("")).Lock, "name")
		panics(func() { relock.SyncLocker(nil) }, "the Locker is nil")

		require.NoError(t, s.Close(kit.Background))
		panics(l.Lock, "closed")
	})
}
