package virtual_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/relocktest"
)

// A Group lost a member while it waited for another, and its Lock returned nil all the same, with
// a hold that was lost already and that others had.
func TestGroupLocksAgainWhatItLosesWhileItWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		redis := relocktest.New(t)
		s := redis.Session()
		a, group := redis.Session().FairMutex("a"), relock.NewGroup(s.FairMutex("a"), s.Mutex("b"))
		release := redis.Hold("b")
		locked := begin(background, group)
		time.Sleep(time.Second)
		redis.Lose("a")
		require.NoError(t, a.Lock(background))
		release()
		time.Sleep(time.Minute)
		require.Empty(t, locked)
		require.NoError(t, a.Unlock(background))
		require.NoError(t, <-locked)
		require.NoError(t, group.Err())
		ok, err := a.TryLock(background)
		require.NoError(t, err)
		require.False(t, ok)
		require.NoError(t, group.Unlock(background))
	})
}

// A server that does not answer keeps the members on others locked no longer than it takes to release
// them; what it knows of itself ends with the lease.
func TestUnlockOfAGroupTriesEveryMember(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		works, hangs := relocktest.New(t), relocktest.New(t)
		s, far, other := works.Session(), hangs.Session(), works.Session()
		group := relock.NewGroup(s.Mutex("a"), far.Mutex("b"), s.FairMutex("c"), far.RWMutex("d"), s.RWMutex("e"))
		require.NoError(t, group.Lock(background))
		heal := hangs.Partition(far)
		unlocked := kit.Async(func() error { return group.Unlock(background) })
		synctest.Wait()
		for _, name := range []string{"a", "c", "e"} {
			ok, err := other.Mutex(name).TryLock(background)
			require.NoError(t, err)
			require.True(t, ok, name)
		}
		require.NoError(t, <-unlocked, "all were certain when it was called")
		require.NoError(t, other.Close(background))
		heal()
		require.NoError(t, group.Lock(background))
		require.NoError(t, group.Unlock(background))
	})
}

// A hold of a Group is certain as long as each of its members' is, whichever has the shortest lease or hold. The
// other members are held until Unlock.
func TestDeadlineOfAGroupIsTheFirstOfItsMembers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := relocktest.New(t).Session()
		for slack, of := range map[time.Duration]func(time.Duration) relock.LockOption{
			0: relock.WithFixedLease, 5 * time.Millisecond: relock.WithMaxHold, // which is renewed meanwhile
		} {
			for i := range 5 {
				d := func(member int) relock.LockOption { return of(time.Duration(1+(member+i)%5) * time.Second) }
				group := relock.NewGroup(s.Mutex("a", d(0)), relock.NewGroup(s.FairMutex("b", d(1)), s.RWMutex("c", d(2))),
					s.RWMutex("d", d(3)).RLocker(), relock.NewRedlock([]*relock.Session{s}, "e", d(4)), s.Mutex("f"))
				start := time.Now()
				var longest *relock.Hold
				require.ErrorIs(t, relock.Do(background, group, func(ctx context.Context) error {
					h := relock.HoldOf(ctx)
					longest = h.Members()[5]
					at, ok := h.Deadline()
					require.True(t, ok)
					require.Equal(t, certain(time.Second), at.Sub(start))
					<-ctx.Done()
					require.InDelta(t, told(time.Second), time.Since(start), float64(slack))
					require.NoError(t, longest.Err())
					return nil
				}), relock.ErrLost)
				require.ErrorIs(t, longest.Err(), relock.ErrNotHeld)
				time.Sleep(lease)
			}
		}
	})
}

// The member that is nearest its deadline ended the release of all others of its session.
func TestUnlockOfAGroupOutlastsItsShortestLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		redis := relocktest.New(t)
		s, other := redis.Session(), redis.Session()
		group := relock.NewGroup(s.Mutex("a", relock.WithFixedLease(time.Second)), s.Mutex("b"))
		require.NoError(t, group.Lock(background))
		time.Sleep(700 * time.Millisecond)
		time.AfterFunc(700*time.Millisecond, redis.Partition(s))
		require.NoError(t, group.Unlock(background))
		ok, err := other.Mutex("b").TryLock(background)
		require.NoError(t, err)
		require.True(t, ok, "Unlock returned before the release")
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

// A Group with a lost member of another module returned that one's error alone.
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

// Redis is so far away that a renewal is due when the members are acquired. One that missed the first round of
// renewals would be lost before the second.
func TestGroupWithShortLeasesIsKeptFarAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := relocktest.New(t)
		s := redis.Session(relock.WithLease(time.Second))
		g := relock.NewGroup(s.Mutex("a"), s.Mutex("b"))
		redis.Delay(s, time.Millisecond) // so that calls overlap: rueidis sends the first two one after the other
		kit.Lock(t, background, g)
		kit.Unlock(t, background, g)
		redis.Delay(s, 180*time.Millisecond)
		kit.Lock(t, background, g)
		select {
		case <-g.Done():
			t.Fatal(g.Err())
		case <-time.After(time.Minute):
		}
		kit.Unlock(t, background, g)
	})
}

// A Group that its context ends says so, also if one of its members has failed before.
func TestGroupSaysThatItsContextHasEnded(t *testing.T) {
	inFive(t, func(t *testing.T, w *world, p *process) {
		p.onScripts(func() string { return "OOM command not allowed" })
		p.on(outages["hang"], 1)
		ctx, cancel := context.WithTimeout(background, 300*time.Millisecond)
		defer cancel()
		err := relock.NewGroup(p.s[0].Mutex("a"), p.s[1].Mutex("b")).Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "OOM")
	})
}
