package virtual_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/relocktest"
)

// Guarantees 3 and 7 of a Redlock: after Unlock nothing is left. A deployment that is slow has two requests under way,
// that of the round and that of a repair. If it loses its data between them it grants both. The hold forgot
// the first for the second, and with the loss of the first it forgot the second too: that one was renewed for ever, and
// the deployment was lost to everybody.
func TestRedlockForgetsNoPartOfASlowDeploymentThatLosesItsData(t *testing.T) {
	t.Parallel()
	for range 30 { // the repair is sent after a random pause
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, &lockTypes[len(lockTypes)-1])
			p := w.process()
			slow := w.redis[2]
			slow.Delay(p.s[2], 450*time.Millisecond)
			time.Sleep(2 * time.Second)
			l := p.held()
			time.Sleep(800 * time.Millisecond)
			require.NoError(t, slow.Client().Do(background, slow.Client().B().Flushall().Build()).Error())
			time.Sleep(3 * lease)
			require.NoError(t, l.Err())
			require.Equal(t, 3, w.holders())
			require.NoError(t, l.Unlock(background))
			time.Sleep(3 * lease)
			require.True(t, w.free())
		})
	}
}

// Guarantee 4: nobody releases another owner's hold, not after loss, and not by a late deferred Unlock. Of a Mutex or a
// Redlock, the Unlock that follows a loss of the handle's own hold ends that; of a Group it ended the hold that an owner
// had taken meanwhile.
func TestUnlockAfterALossEndsNoOwnersHold(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		l := p.held()
		for _, s := range p.s {
			for _, name := range w.typ.names {
				_, err := s.ForceUnlock(background, name)
				require.NoError(t, err)
			}
		}
		lost(t, l)
		owner := p.s[0].NewContext(background)
		require.NoError(t, l.Lock(owner))
		require.ErrorIs(t, l.Unlock(background), relock.ErrLost) // the deferred one of the first holder
		require.NoError(t, l.Err())
		require.NoError(t, l.Unlock(owner))
	})
}

// gone is a Locker of another module, which has an error of its own for a loss.
type gone struct {
	relock.Locker
	done chan struct{}
}

var errGone = errors.New("their lock is gone")

func (g *gone) Done() <-chan struct{}            { return g.done }
func (g *gone) Unlock(ctx context.Context) error { _ = g.Locker.Unlock(ctx); return errGone }

// Locker.Unlock returns ErrLost if the hold had ended before. A Group with a lost member of another module returned that
// one's error alone.
func TestUnlockOfAGroupSaysThatAForeignMemberWasLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := relocktest.New(t).Session()
		their := &gone{s.Mutex("b"), make(chan struct{})}
		g := relock.NewGroup(s.Mutex("a"), their)
		require.NoError(t, g.Lock(background))
		close(their.done)
		synctest.Wait()
		require.ErrorIs(t, g.Err(), relock.ErrLost)
		err := g.Unlock(background)
		require.ErrorIs(t, err, errGone)
		require.ErrorIs(t, err, relock.ErrLost)
	})
}

// Guarantee 10: what one reader of a handle has is not cut short by the next.
func TestReaderOfAHandleKeepsItsDeadline(t *testing.T) {
	alone(t, reader, func(t *testing.T, w *world) {
		p, q := w.process(), w.process()
		l := p.lock(relock.WithFixedLease(lease))
		require.NoError(t, l.Lock(background))
		start := time.Now()
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(background)
		go func() { _ = q.s[0].RWMutex("a").Lock(ctx) }()
		time.Sleep(time.Second)
		second := begin(background, l)
		time.Sleep(time.Second)
		cancel()
		require.NoError(t, <-second)
		p.partition()
		at := lost(t, l).Sub(start)
		require.GreaterOrEqual(t, at, told(lease))
	})
}
