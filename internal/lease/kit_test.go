package lease

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, redistest.Leaks()...) }

const (
	enough = 20 * time.Second // for what comes quickly on an idle machine

	// Leases are so long that the time which the test itself takes is nothing to them. It
	// is the test that lets time pass.
	length = time.Hour
	third  = length / 3
	little = time.Minute
)

// loss is what a watchdog tells of a lease.
type loss struct {
	lease *Lease
	cause error
}

// rig is a watchdog, and what it needs, as a session has them. The test looks by hand.
type rig struct {
	*Watchdog
	t      *testing.T
	mini   *miniredis.Miniredis
	wg     sync.WaitGroup
	losses []loss
	seq    int
}

// Renewed implements Owner.
func (r *rig) Renewed(int, time.Duration, error) {}

// newRig returns a rig on miniredis, whose keys do not expire.
func newRig(t *testing.T) *rig {
	t.Helper()
	m, client := redistest.Mini(t)
	scripts, err := wire.LoadScripts(os.DirFS("../../lua"))
	require.NoError(t, err)
	r := &rig{t: t, mini: m}
	r.Watchdog = NewWatchdog(WatchdogConfig{
		Proto: wire.NewProtocol(transport.NewConn(client, 0, 0, &r.wg), scripts, wire.GrantMost),
		Clock: clock.New(), Lease: length, Ctx: t.Context(), Owner: r,
	})
	t.Cleanup(r.wg.Wait)
	return r
}

// Lost implements Owner.
func (r *rig) Lost(l *Lease, cause error) { r.losses = append(r.losses, loss{l, cause}) }

// lease returns a lease as it is before it is acquired.
func (r *rig) lease() *Lease {
	r.seq++
	keys := wire.NewKeys(wire.Plain, fmt.Sprint("lock ", r.seq))
	return &Lease{Ref: wire.Ref{Keys: &keys, ID: fmt.Sprint("s:", r.seq), Length: r.Lease, GrantFor: wire.GrantOf(r.Lease)}}
}

// acquire acquires a lease.
func (r *rig) acquire(l *Lease) *Lease {
	r.t.Helper()
	l.Sent = r.Clock.Now()
	reply, err := r.Proto.Acquire(r.Ctx, &l.Ref, wire.Ask{LeaseMS: wire.Millis(l.Length)})
	require.NoError(r.t, err)
	require.True(r.t, reply.Granted, "the lock is taken")
	l.Token, l.Since = reply.Token, r.Clock.Now()
	l.Acquired()
	return l
}

// kept acquires a lease and gives it to the watchdog.
func (r *rig) kept() *Lease {
	r.t.Helper()
	l := r.acquire(r.lease())
	r.Add(l, 0)
	return l
}

// after lets time pass, and returns what is to be renewed then.
func (r *rig) after(d time.Duration) (due []*Lease) {
	r.Clock.Skip(d)
	require.Empty(r.t, r.ended(), "it has run out")
	return r.renewals.Take(r.Clock.Now())
}

// ended returns the leases whose deadline has passed.
func (r *rig) ended() []*Lease { return r.expired(r.deadlines.Take(r.Clock.Now())) }
