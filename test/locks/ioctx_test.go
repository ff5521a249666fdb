package locks_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// readers returns how many connections of rueidis have goroutines of their own.
func readers() int {
	buf := make([]byte, 1<<20)
	return strings.Count(string(buf[:runtime.Stack(buf, true)]), "rueidis.(*pipe)._backgroundRead(")
}

// Every call that went through the goroutines of the connection took almost twice as
// long: an acquire under a context without an end because of Close, the release and
// the renewals because of the end of the lease, the start of the session because its
// caller may give up.
func TestCallsDoNotMakeRueidisStartGoroutines(t *testing.T) {
	srv := redistest.Start(t)
	before := readers()
	client := kit.NewClient(t, srv)
	ctx, cancel := context.WithTimeout(kit.Background, kit.Soon)
	defer cancel()
	renewed := make(chan struct{}, 10)
	s, err := relock.NewSession(ctx, client, relock.WithLease(6*time.Second), relock.WithObserver(onRenewed(renewed)))
	require.NoError(t, err)
	defer s.Close(kit.Background)

	for _, l := range []relock.Locker{s.Mutex("m"), s.FairMutex("f"), s.RWMutex("rw"), s.RWMutex("rw").RLocker()} {
		require.NoError(t, l.Lock(kit.Background))
		require.NoError(t, l.Unlock(ctx))
	}
	m := s.Mutex("renewed")
	require.NoError(t, m.Lock(kit.Background))
	kit.Receive(t, renewed, "a renewal")
	require.NoError(t, m.Unlock(kit.Background))
	require.LessOrEqual(t, readers(), before+1, "that of the subscriptions has goroutines, and no other")
}

type onRenewed chan struct{}

func (o onRenewed) Renewed(relock.RenewEvent) { o <- struct{}{} }

func (onRenewed) Waiting(context.Context, relock.WaitEvent) {}

func (onRenewed) Acquired(context.Context, relock.AcquireEvent) {}

func (onRenewed) Released(context.Context, relock.ReleaseEvent) {}

func (onRenewed) Lost(relock.LostEvent) {}
