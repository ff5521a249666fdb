package queue

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/pubsub"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, redistest.Leaks()...) }

const (
	enough = 20 * time.Second // for what comes quickly on an idle machine
	rarely = 10 * time.Minute // a grant timeout so long that nobody polls unless something happens
)

// rig is a queue, and what it needs, as a session has them. The test makes the polls by hand.
type rig struct {
	*Queue
	t   *testing.T
	wg  sync.WaitGroup
	seq atomic.Int64
}

// newRig returns a queue and its server.
func newRig(t *testing.T) (*rig, *redistest.Server) { return newRigWith(t, wire.Plainly) }

func newRigWith(t *testing.T, how wire.PubSub) (*rig, *redistest.Server) {
	t.Helper()
	server := redistest.Start(t)
	scripts, err := wire.LoadScripts(os.DirFS("../../lua"))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	r := &rig{t: t}
	c, conn := clock.New(), transport.NewConn(server.Client(t), 0, 0, &r.wg)
	b := pubsub.New(pubsub.Config{Conn: conn, Clock: c, Handler: r.dispatch, Tasks: &r.wg, Ctx: ctx})
	if how == wire.Sharded {
		b.Shards = wire.IsGrantChannel
	}
	r.Queue = New(Config{
		Proto: wire.NewProtocol(conn, scripts, rarely), Broker: b, Clock: c, Session: "00000001-0000-8000-8000-000000000000", Ctx: ctx,
	})
	r.Proto.PubSub = how
	t.Cleanup(func() { cancel(); r.wg.Wait() })
	require.NoError(t, b.Pin(wire.PrefixSession+r.Session, func(bool) { r.Resubscribed() })(ctx))
	return r, server
}

// dispatch gives what is said to a waiter to the queue, as a session does. The holder is of the same one.
func (r *rig) dispatch(channel, message string) bool {
	if wire.IsSessionChannel(channel) && !strings.HasPrefix(message, "wanted ") {
		r.Heard(message)
	}
	return wire.IsSessionChannel(channel)
}

// ref returns a hold of the lock "a" that nothing has asked for yet.
func (r *rig) ref(k wire.Kind) wire.Ref {
	keys := wire.NewKeys(k, "a")
	return wire.Ref{Keys: &keys, ID: fmt.Sprint(r.Session, ":", r.seq.Add(1)), Length: 30 * time.Second, GrantFor: wire.GrantMost, Kind: k}
}

// held takes the lock.
func (r *rig) held(k wire.Kind) *wire.Ref {
	r.t.Helper()
	hold := r.ref(k)
	reply, err := r.Proto.Acquire(r.Ctx, &hold, wire.Ask{LeaseMS: wire.Millis(hold.Length)})
	require.NoError(r.t, err)
	require.True(r.t, reply.Granted, "the lock is taken")
	return &hold
}

// release ends a hold that must be there.
func (r *rig) release(hold *wire.Ref) {
	r.t.Helper()
	told, err := r.Proto.Release(r.Ctx, hold)
	require.NoError(r.t, err)
	require.GreaterOrEqual(r.t, told, int64(0), "there was no such hold")
}

// queues sends a request that must queue a hold.
func (r *rig) queues(hold *wire.Ref) (sent int64, reply wire.Reply) {
	r.t.Helper()
	sent = r.Clock.Now()
	reply, err := r.Proto.Acquire(r.Ctx, hold, wire.Ask{LeaseMS: wire.Millis(hold.Length), Queue: true})
	require.NoError(r.t, err)
	require.False(r.t, reply.Granted, "the lock is free")
	return sent, reply
}

// waiter adds a waiter that is in the queue.
func (r *rig) waiter() *Waiter {
	r.t.Helper()
	hold := r.ref(wire.Fair)
	sent, reply := r.queues(&hold)
	return r.Add(hold, sent, reply)
}

// dueOf returns how many of some waiters are to be polled now.
func (r *rig) dueOf(waiters ...*Waiter) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range waiters {
		if w.next.Pending() && w.next.At <= r.Clock.Now() {
			n++
		}
	}
	return n
}

// due returns those that are to be polled now.
func (r *rig) due() []*Waiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.polls.Take(r.Clock.Now())
}

// do runs a command that may not fail.
func do(t *testing.T, s *redistest.Server, args ...string) {
	t.Helper()
	_, err := s.Do(args...)
	require.NoError(t, err, "%q", args)
}
