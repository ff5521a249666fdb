package relocktusd_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock"
	relocktusd "github.com/relock-go/relock/adapters/tusd"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
	"github.com/tus/tusd/v2/pkg/handler"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	redistest.RunChild(map[string]func([]string){"holder": holder, "server": server})
	goleak.VerifyTestMain(m, redistest.Leaks()...)
}

// lock returns the lock of the upload "one".
func lock(t *testing.T, l handler.Locker) handler.Lock {
	t.Helper()
	k, err := l.NewLock("one")
	require.NoError(t, err)
	return k
}

func never() { panic("must not be called") }

// onBoth runs what tusd tests of its own lockers, within a process and between two.
func onBoth(t *testing.T, f func(t *testing.T, one, two handler.Locker)) {
	for _, apart := range []bool{false, true} {
		t.Run(fmt.Sprint("apart=", apart), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			session := kit.NewSession(t, server)
			one, two := relocktusd.NewLocker(session), relocktusd.NewLocker(session)
			if apart {
				two = relocktusd.NewLocker(kit.NewSession(t, server))
			}
			f(t, one, two)
			for _, l := range []handler.Locker{one, two} { // nothing is left
				k := lock(t, l)
				require.NoError(t, k.Lock(t.Context(), never))
				require.NoError(t, k.Unlock())
			}
		})
	}
}

func TestLockAndUnlock(t *testing.T) {
	onBoth(t, func(t *testing.T, one, two handler.Locker) {
		for _, l := range []handler.Locker{one, two, one} {
			k := lock(t, l)
			require.NoError(t, k.Lock(t.Context(), never))
			require.NoError(t, k.Unlock())
			require.ErrorIs(t, k.Unlock(), relock.ErrNotHeld)
		}
	})
}

func TestTimeout(t *testing.T) {
	onBoth(t, func(t *testing.T, one, two handler.Locker) {
		requested := make(chan struct{})
		first := lock(t, one)
		require.NoError(t, first.Lock(t.Context(), func() { close(requested) })) // and does not unlock
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-requested
			cancel()
		}()
		require.Equal(t, handler.ErrLockTimeout, lock(t, two).Lock(ctx, never))
		require.NoError(t, first.Unlock())
	})
}

func TestRequestUnlock(t *testing.T) {
	onBoth(t, func(t *testing.T, one, two handler.Locker) {
		var requests, unlocked sync.WaitGroup
		requests.Add(1)
		first := lock(t, one)
		require.NoError(t, first.Lock(t.Context(), func() {
			requests.Done() // once
			unlocked.Go(func() { require.NoError(t, first.Unlock()) })
		}))
		second := lock(t, two)
		require.NoError(t, second.Lock(t.Context(), never))
		requests.Wait()
		unlocked.Wait()
		require.NoError(t, second.Unlock())
	})
}

func TestALostLockRequestsUnlock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	operator := kit.NewSession(t, server)
	k := lock(t, relocktusd.NewLocker(kit.NewSession(t, server)))
	requested := make(chan struct{})
	require.NoError(t, k.Lock(t.Context(), func() { close(requested) }))
	opened, err := operator.ForceUnlock(t.Context(), "one")
	require.NoError(t, err)
	require.True(t, opened)
	redistest.Eventually(t, kit.Soon, "request", func() bool {
		select {
		case <-requested:
			return true
		default:
			return false
		}
	})
	require.ErrorIs(t, k.Unlock(), relock.ErrForced)
}

func TestErrorsOfLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	session := kit.NewSession(t, server)
	impatient := relocktusd.NewLocker(session, relock.WithWait(time.Second))
	k := lock(t, impatient)
	require.NoError(t, k.Lock(t.Context(), func() {}))
	require.Equal(t, handler.ErrLockTimeout, lock(t, impatient).Lock(t.Context(), never))
	require.NoError(t, k.Unlock())

	k, err := impatient.NewLock("{")
	require.NoError(t, err)
	require.Equal(t, handler.ErrNotFound, k.Lock(t.Context(), never))
	require.ErrorIs(t, lock(t, relocktusd.NewLocker(session, relock.WithWait(0))).Lock(t.Context(), never), relock.ErrOption)
}

// holder is a process that locks "one", and unlocks it when it is asked to, if args[1] says "polite".
func holder(args []string) {
	session, _ := kit.ChildSession(args[0], relock.WithLease(2*time.Second))
	k, err := relocktusd.NewLocker(session).NewLock("one")
	kit.ChildCheck(err)
	requested := make(chan struct{})
	kit.ChildCheck(k.Lock(context.Background(), func() { close(requested) }))
	fmt.Println("locked")
	<-requested
	fmt.Println("requested")
	if args[1] == "polite" {
		kit.ChildCheck(k.Unlock())
	}
	select {}
}

// A process that unlocks when it is asked to, and one that is killed.
func TestLockComesFromAnotherProcess(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"polite", "deaf"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			mine := lock(t, relocktusd.NewLocker(kit.NewSession(t, server)))
			other := redistest.Child(t, "holder", server.Addr(), how)
			_, err := other.Expect("locked", kit.Soon)
			require.NoError(t, err)
			got := make(chan error)
			go func() { got <- mine.Lock(t.Context(), never) }()
			_, err = other.Expect("requested", kit.Soon)
			require.NoError(t, err)
			if how == "deaf" {
				other.Kill()
			}
			require.NoError(t, <-got)
			require.NoError(t, mine.Unlock())
		})
	}
}
