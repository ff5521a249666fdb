package queue

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
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
	rarely = 10 * time.Minute // a claim so long that what comes sooner than probes is by a signal
)

// rig is a queue, and what it needs, as a session has them.
type rig struct {
	*Queue
	t   *testing.T
	ctx context.Context
	wg  sync.WaitGroup
	seq atomic.Int64
}

// newRig returns a queue whose waiters probe the lock about three times in a claim. The
// test makes the probes by hand, unless it calls start.
func newRig(t *testing.T, client rueidis.Client, claim time.Duration) *rig {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &rig{t: t, ctx: ctx}
	c, conn := clock.New(), transport.NewConn(client, 0, 0, &r.wg)
	b := pubsub.New(pubsub.Config{Conn: conn, Clock: c, Handler: r.dispatch, Tasks: &r.wg, Ctx: ctx})
	r.Queue = New(Config{
		Proto: wire.NewProtocol(conn, scripts, claim), Broker: b, Clock: c, Session: "00000001-0000-8000-8000-000000000000", Ctx: ctx,
	})
	t.Cleanup(func() { cancel(); r.wg.Wait() })
	require.NoError(t, b.Pin(ctx, wire.PrefixSession+r.Session, r.Resubscribed))
	return r
}

// dispatch gives grants to the queue, as a session does.
func (r *rig) dispatch(channel, message string) bool {
	if wire.IsSessionChannel(channel) {
		r.Heard(message)
	}
	return wire.IsSessionChannel(channel)
}

// newSlowRig returns a rig whose waiters hardly ever probe by themselves, and its server.
func newSlowRig(t *testing.T) (*rig, *redistest.Server) {
	t.Helper()
	server := redistest.Start(t)
	return newRig(t, server.Client(t), rarely), server
}

// start runs the queue until the test ends.
func (r *rig) start() { r.wg.Go(r.Run) }

// ref returns a hold of the lock "a" that nothing has asked for yet.
func (r *rig) ref(k wire.Kind) wire.Ref {
	keys := wire.NewKeys(k, "a")
	return wire.Ref{Keys: &keys, ID: fmt.Sprint(r.Session, ":", r.seq.Add(1)), Length: 30 * time.Second, Claim: wire.ClaimMost, Kind: k}
}

// held takes the lock.
func (r *rig) held(k wire.Kind) *wire.Ref {
	r.t.Helper()
	hold := r.ref(k)
	token, _, err := r.Proto.Acquire(r.ctx, &hold, wire.Millis(hold.Length), false)
	require.NoError(r.t, err)
	require.Positive(r.t, token, "the lock is taken")
	return &hold
}

// release ends a hold that must be there.
func (r *rig) release(hold *wire.Ref) {
	r.t.Helper()
	told, err := r.Proto.Release(r.ctx, hold, nil)
	require.NoError(r.t, err)
	require.GreaterOrEqual(r.t, told, int64(0), "there was no such hold")
}

// queues sends a request that must queue a hold.
func (r *rig) queues(hold *wire.Ref) (sent int64, ttl time.Duration) {
	r.t.Helper()
	sent = r.Clock.Now()
	token, ttl, err := r.Proto.Acquire(r.ctx, hold, wire.Millis(hold.Length), true)
	require.NoError(r.t, err)
	require.LessOrEqual(r.t, token, int64(0), "the lock is free")
	return sent, ttl
}

// waiter adds a contender that is in the queue.
func (r *rig) waiter() *Waiter {
	r.t.Helper()
	hold := r.ref(wire.Fair)
	sent, ttl := r.queues(&hold)
	return r.Add(hold, sent, ttl)
}

// dueOf returns how many of some waiters are to probe now.
func (r *rig) dueOf(waiters ...*Waiter) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, st := range waiters {
		if st.next.Pending() && st.next.At <= r.Clock.Now() {
			n++
		}
	}
	return n
}

// due returns those that are to probe now.
func (r *rig) due() []*Waiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.probes.Take(r.Clock.Now())
}

// lock queues until it is granted the lock, as a call of Lock does, and then releases it.
func (r *rig) lock() error {
	for {
		hold, sent := r.ref(wire.Fair), r.Clock.Now()
		token, ttl, err := r.Proto.Acquire(r.ctx, &hold, wire.Millis(hold.Length), true)
		if err == nil && token <= 0 {
			token, err = r.wait(hold, sent, ttl)
		}
		if err == nil && token > 0 {
			_, err = r.Proto.Release(r.ctx, &hold, nil)
		}
		if err != nil || token > 0 {
			return err
		}
	}
}

// wait returns the token that a contender is granted, or 0 if its place is lost.
func (r *rig) wait(hold wire.Ref, sent int64, ttl time.Duration) (token int64, err error) {
	st := r.Add(hold, sent, ttl)
	defer r.Remove(st)
	for {
		select {
		case <-st.C:
		case <-r.ctx.Done():
			return 0, errors.New("the test has ended")
		}
		if g, lost := r.Answer(st); g.Token > 0 || lost {
			return g.Token, nil
		}
	}
}

// locking starts lock.
func (r *rig) locking() <-chan error {
	got := make(chan error, 1)
	r.wg.Go(func() { got <- r.lock() }) // ends with the test at the latest
	return got
}

func (r *rig) gotIn(got <-chan error) {
	r.t.Helper()
	select {
	case err := <-got:
		require.NoError(r.t, err)
	case <-time.After(enough):
		r.t.Fatal("a waiter was not woken")
	}
}

// inQueue waits until a waiter stands here and has no probe planned soon. It returns its id.
func (r *rig) inQueue() (id string) {
	r.t.Helper()
	redistest.Eventually(r.t, enough, "a waiter to queue", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		for of, st := range r.waiters {
			if id = of; st.next.Pending() && st.next.At > r.Clock.Now() {
				return true
			}
		}
		return false
	})
	return id
}

// do runs a command that may not fail.
func do(t *testing.T, s *redistest.Server, args ...string) {
	t.Helper()
	_, err := s.Do(args...)
	require.NoError(t, err, "%q", args)
}

// scripts are the scripts of the tree.
var scripts = func() *wire.Scripts {
	s, err := wire.LoadScripts(os.DirFS("../../lua"))
	if err != nil {
		panic(err)
	}
	return s
}()
