package kit

import (
	"context"
	"errors"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
)

// Proxied starts a server with a proxy in front of it.
func Proxied(t testing.TB, args ...string) (*redistest.Server, *redistest.Proxy) {
	t.Helper()
	server := redistest.Start(t, args...)
	return server, redistest.NewProxy(t, server.Addr())
}

// LostOrNil passes the two results that Unlock may have under faults.
func LostOrNil(err error) error {
	if errors.Is(err, relock.ErrLost) {
		return nil
	}
	return err
}

// FencedLocker is an exclusive lock of any kind.
type FencedLocker interface {
	relock.Locker
	FencingToken() int64
}

// Acquirer is a lock of any type, or a side of one.
type Acquirer interface {
	relock.Locker
	Acquire(ctx context.Context) (*relock.Hold, error)
	TryAcquire(ctx context.Context) (*relock.Hold, error)
}
