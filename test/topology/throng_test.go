package topology_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// throng is sessions that contend for a lock of each pairing all the time. What the
// locks guard is in this process, so no failover takes it back.
type throng struct {
	ctx     context.Context
	stop    context.CancelFunc
	wg      sync.WaitGroup
	lost    *lossCount
	guarded []*guarded
	short   atomic.Int64 // acquisitions that too few replicas had
	failed  context.Context
	fail    context.CancelCauseFunc // with what was wrong
}

// guarded is a number that a lock guards.
type guarded struct {
	name   string
	number atomic.Int64 // is read, and a while later written
	token  atomic.Int64 // the last one
	writes atomic.Int64
	turns  [2]atomic.Int64 // of each session
}

// throngLease is for how long a lock may stay held whose release was lost: the server
// that ran it was a primary no longer, or was killed before its replicas knew.
const throngLease = 4 * time.Second

// startThrong starts two sessions for a throng.
func startThrong(t testing.TB, d deployment, opts ...relock.SessionOption) *throng {
	t.Helper()
	lost := new(lossCount)
	join := parties(t, d, append(opts, relock.WithLease(throngLease), relock.WithObserver(lost))...)
	return newThrong(join(), join(), lost, pairings, func(kinds string) string { return "traffic " + kinds })
}

// newThrong has two sessions contend for a lock of each of some pairings.
func newThrong(a, b party, lost *lossCount, of []pairing, name func(kinds string) string) *throng {
	tr := &throng{lost: lost}
	tr.failed, tr.fail = context.WithCancelCause(kit.Background)
	tr.ctx, tr.stop = context.WithCancel(kit.Background)
	for _, p := range of {
		g := &guarded{name: name(p.kinds)}
		tr.guarded = append(tr.guarded, g)
		for i, l := range []relock.Locker{p.holds(a, g.name), p.waits(b, g.name)} {
			reads := i == 0 && p.shared || i == 1 && p.kinds == "writer and reader"
			tr.wg.Go(func() { tr.drive(g, i, l, reads) })
		}
	}
	return tr
}

// drive takes and ends one lock again and again.
func (tr *throng) drive(g *guarded, who int, l relock.Locker, reads bool) {
	for tr.ctx.Err() == nil {
		err := l.Lock(tr.ctx)
		switch {
		case err == nil:
			err = errors.Join(g.use(l, reads), kit.LostOrNil(l.Unlock(kit.Background)))
			g.turns[who].Add(1)
		case tr.ctx.Err() != nil:
			return
		case strings.Contains(err.Error(), "replicas have acknowledged"):
			tr.short.Add(1)
			err = nil
		}
		if err != nil {
			tr.fail(fmt.Errorf("%s: %w", g.name, err))
			return
		}
		time.Sleep(rand.N(30 * time.Millisecond))
	}
}

// use does what the lock is there for: one that reads wants the number to stay as it is,
// the others add to it, not atomically.
func (g *guarded) use(l relock.Locker, reads bool) error {
	n, token, last := g.number.Load(), fencingToken(l), g.token.Load()
	time.Sleep(rand.N(3 * time.Millisecond))
	switch {
	case l.Err() != nil: // the failover took longer than a lease
		return nil
	case g.number.Load() != n:
		return errors.New("the number was changed by somebody else")
	case reads:
		return nil
	case token > 0 && token <= last:
		return fmt.Errorf("fencing token %d after %d", token, last)
	}
	g.token.Store(token)
	g.number.Store(n + 1)
	g.writes.Add(1)
	return nil
}

// goesOn waits until each session has had each lock a few times more.
func (tr *throng) goesOn(t testing.TB) {
	t.Helper()
	const turns = 3
	before := make(map[*atomic.Int64]int64)
	for _, g := range tr.guarded {
		for i := range g.turns {
			before[&g.turns[i]] = g.turns[i].Load()
		}
	}
	redistest.Eventually(t, 3*kit.Soon, "the locks to go round", func() bool {
		for turn, n := range before {
			if turn.Load() < n+turns {
				require.NoError(t, context.Cause(tr.failed))
				return false
			}
		}
		return true
	})
}

// end stops the traffic and checks it.
func (tr *throng) end(t testing.TB) {
	t.Helper()
	tr.stop()
	tr.wg.Wait()
	require.NoError(t, context.Cause(tr.failed))
	expired := tr.lost.expired(t)
	total := int64(0)
	for _, g := range tr.guarded {
		require.Equal(t, g.writes.Load(), g.number.Load(), g.name)
		total += g.writes.Load()
	}
	t.Logf("%d exclusive holds, %d expired, %d acquisitions that too few replicas had", total, expired, tr.short.Load())
}
