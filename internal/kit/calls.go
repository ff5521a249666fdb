package kit

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/stretchr/testify/require"
)

// Calls of locks, at once and one by one, that fail the test.

// Together runs f in n goroutines at the same time and joins their errors.
func Together(n int, f func(i int) error) error {
	var wg sync.WaitGroup
	errs := make([]error, n)
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	wg.Wait()
	return errors.Join(errs...)
}

// Async runs f in a goroutine and delivers its result; see Receive.
func Async[T any](f func() T) <-chan T {
	c := make(chan T, 1)
	go func() { c <- f() }()
	return c
}

// Receive returns what arrives on c, and stops the test when nothing does.
func Receive[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(Soon):
		t.Fatalf("not within %v: %s", Soon, what)
		panic("unreachable")
	}
}

// Lock takes a lock, and fails the test if that does not succeed soon.
func Lock(t testing.TB, ctx context.Context, l relock.Locker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, Soon)
	defer cancel()
	require.NoError(t, l.Lock(ctx))
}

// Warm takes and ends a lock once, and waits until the server's clock has passed the token: the next acquisition gets a
// block of tokens, and can be passed on.
func Warm(t testing.TB, l relock.Locker) {
	t.Helper()
	Lock(t, Background, l)
	Unlock(t, Background, l)
	time.Sleep(5 * time.Millisecond)
}

// Unlock ends a hold that must be there.
func Unlock(t testing.TB, ctx context.Context, l relock.Locker) {
	t.Helper()
	require.NoError(t, l.Unlock(ctx))
}

// TryLock makes one attempt that must not fail, and reports whether it got the lock.
func TryLock(t testing.TB, ctx context.Context, l relock.Locker) bool {
	t.Helper()
	ok, err := l.TryLock(ctx)
	require.NoError(t, err)
	return ok
}

// Acquire acquires a lock, and fails the test if that does not succeed soon.
func Acquire(t testing.TB, ctx context.Context, l relock.Locker) *relock.Hold {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, Soon)
	defer cancel()
	h, err := l.(Acquirer).Acquire(ctx)
	require.NoError(t, err)
	return h
}

// IsClosed reports whether a channel is closed.
func IsClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// HeapInUse returns how much memory of this process is in use, after a collection of garbage.
func HeapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
