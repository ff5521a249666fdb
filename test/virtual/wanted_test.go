package virtual_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
)

// onWantable runs f in a bubble for each type of such locks.
func onWantable(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	for i := range lockTypes {
		if lockTypes[i].wantable() {
			t.Run(lockTypes[i].name, func(t *testing.T) { alone(t, &lockTypes[i], f) })
		}
	}
}

// wantable reports whether a holder hears that the lock is wanted.
func (l *lockType) wantable() bool {
	return slices.Contains([]string{"Mutex", "FairMutex", "writer", "Semaphore"}, l.name)
}

func isClosed(c <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func closesWithin(d time.Duration, c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-time.After(d):
		return false
	}
}

func TestHolderHearsThatAnotherProcessWaits(t *testing.T) {
	const way = 20 * time.Millisecond
	onWantable(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		l := p.taken()
		wanted := l.Wanted()
		ok, err := other.lock().TryLock(background)
		require.NoError(t, err)
		require.False(t, ok)
		time.Sleep(time.Minute)
		require.False(t, isClosed(wanted), "a TryLock does not wait")

		p.delay(way)
		other.delay(way)
		waits, start := lockAndUnlock(other.lock()), time.Now()
		<-wanted
		require.Equal(t, 2*way, time.Since(start), "one request, one message")
		require.True(t, isClosed(l.Wanted()))
		require.NoError(t, l.Unlock(background))
		require.NoError(t, <-waits)
		require.True(t, isClosed(l.Wanted()), "after the hold")
		require.NoError(t, l.Lock(background))
		require.False(t, isClosed(l.Wanted()), "of another hold")
		require.NoError(t, l.Unlock(background))
	})
}

func TestHolderHearsThatAGoroutineWaits(t *testing.T) {
	onWantable(t, func(t *testing.T, w *world) {
		p := w.process()
		l := p.taken()
		require.False(t, isClosed(l.Wanted()))
		second := p.acquirer()
		waits := begin(background, second)
		require.True(t, isClosed(l.Wanted()))
		third := begin(background, p.lock())
		synctest.Wait()
		require.NoError(t, l.Unlock(background))
		require.NoError(t, <-waits)
		require.True(t, isClosed(second.Wanted()), "the third waits")
		require.NoError(t, second.Unlock(background))
		require.NoError(t, <-third)
	})
}

// Whoever is granted a lock hears whether others wait behind it, in this process or in others.
func TestWinnerHearsThatOthersWaitBehindIt(t *testing.T) {
	onWantable(t, func(t *testing.T, w *world) {
		p, q, r := w.process(), w.process(), w.process()
		l := p.held()
		second, third := q.acquirer(), r.acquirer()
		waits := begin(background, second)
		time.Sleep(time.Millisecond)
		last := begin(background, third)
		time.Sleep(time.Millisecond)
		require.NoError(t, l.Unlock(background))
		require.NoError(t, <-waits)
		require.True(t, isClosed(second.Wanted()))
		require.NoError(t, second.Unlock(background))
		require.NoError(t, <-last)
		require.False(t, isClosed(third.Wanted()), "nobody waits any more")
		time.Sleep(time.Minute)
		require.False(t, isClosed(third.Wanted()))
		require.NoError(t, third.Unlock(background))
	})
}

// A process whose tenure is spent queues behind the others in the step of its release: the winner hears of it.
func TestWinnerHearsOfWhoReleases(t *testing.T) {
	onWantable(t, func(t *testing.T, w *world) {
		p, q := w.process(), w.process()
		l, winner := p.held(), q.acquirer()
		waits := begin(background, winner)
		time.Sleep(time.Second)
		next := begin(background, p.lock())
		time.Sleep(time.Second)
		require.NoError(t, l.Unlock(background))
		require.NoError(t, <-waits)
		require.True(t, isClosed(winner.Wanted()))
		require.NoError(t, winner.Unlock(background))
		require.NoError(t, <-next)
	})
}

// A hold that another goroutine passes on is as wanted by other processes.
func TestPassedOnHoldIsWantedByOthers(t *testing.T) {
	onWantable(t, func(t *testing.T, w *world) {
		p, q := w.process(), w.process()
		l, second := p.held(), p.acquirer()
		passed := begin(background, second)
		time.Sleep(time.Millisecond)
		waits := begin(background, q.lock())
		time.Sleep(time.Millisecond)
		require.NoError(t, l.Unlock(background))
		require.NoError(t, <-passed)
		require.True(t, isClosed(second.Wanted()))
		require.NoError(t, second.Unlock(background))
		require.NoError(t, <-waits)
	})
}

// A message may be lost with a connection. Who waits first looks, and repeats it.
func TestLostWantedIsRepeated(t *testing.T) {
	onWantable(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		l := p.taken()
		wanted := l.Wanted()
		time.Sleep(time.Second) // nobody has just subscribed, and looks for that
		memredis.Of(w.redis[0], p.s[0]).LoseMessage("wanted ")
		waits := begin(background, other.lock())
		synctest.Wait()
		require.False(t, isClosed(wanted))
		require.True(t, closesWithin(2*time.Second, wanted))
		require.NoError(t, l.Unlock(background))
		require.NoError(t, <-waits)
	})
}

// If the first of the queue is dead, the others repeat it.
func TestLostWantedOfTheDeadIsRepeated(t *testing.T) {
	onWantable(t, func(t *testing.T, w *world) {
		p, dead, other := w.process(), w.process(), w.process()
		l := p.taken()
		wanted := l.Wanted()
		time.Sleep(time.Second)
		memredis.Of(w.redis[0], p.s[0]).LoseMessage("wanted ")
		begin(background, dead.lock())
		time.Sleep(time.Millisecond)
		dead.partition()
		waits := begin(background, other.lock())
		require.True(t, closesWithin(7*time.Second, wanted))
		require.NoError(t, l.Unlock(background))
		require.NoError(t, <-waits)
	})
}

func TestDoHearsThatItsLockIsWanted(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		require.Nil(t, relock.HoldOf(background).Wanted())
		p, other := w.process(), w.process()
		l := p.lock()
		var waits <-chan error
		require.NoError(t, relock.Do(background, l, func(ctx context.Context) error {
			wanted := relock.HoldOf(ctx).Wanted()
			waits = lockAndUnlock(other.otherSide())
			if !w.typ.wantable() {
				require.Nil(t, wanted)
				return nil
			}
			<-wanted
			return nil
		}))
		require.NoError(t, <-waits)
	})
}

func TestWriterHearsOfReaders(t *testing.T) {
	alone(t, &lockTypes[2], func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		l := p.acquirer()
		for _, by := range []*process{p, other} {
			require.NoError(t, l.Lock(background))
			wanted := l.Wanted()
			require.False(t, isClosed(wanted))
			waits := lockAndUnlock(by.s[0].RWMutex("a").RLocker())
			<-wanted
			require.NoError(t, l.Unlock(background))
			require.NoError(t, <-waits)
		}
	})
}

// Whoever may publish to the session can say what he likes. Only a hold id proves that he may know of it.
func TestForgedWantedIsNotBelieved(t *testing.T) {
	onWantable(t, func(t *testing.T, w *world) {
		p := w.process()
		l := p.taken()
		id := p.s[0].ID()
		hold := w.fields()[0] // before mode
		for _, text := range []string{"wanted", "wanted " + id, "wanted " + id + ":1 a", "wanted " + hold + " b", "wanted  a"} {
			w.do("PUBLISH", "relock_session:"+id, text)
		}
		require.False(t, isClosed(l.Wanted()))
		w.do("PUBLISH", "relock_session:"+id, "wanted "+hold+" a")
		require.True(t, isClosed(l.Wanted()))
		require.NoError(t, l.Unlock(background))
	})
}

// The next hold does not hear of those who have given up.
func TestNextHoldIsNotWantedByThoseWhoGaveUp(t *testing.T) {
	onWantable(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		l := p.taken()
		ctx, cancel := context.WithCancel(background)
		waits := begin(ctx, other.lock())
		synctest.Wait()
		cancel()
		require.Error(t, <-waits)
		require.True(t, isClosed(l.Wanted()))
		require.NoError(t, l.Unlock(background))
		require.NoError(t, l.Lock(background))
		require.False(t, isClosed(l.Wanted()))
		time.Sleep(time.Minute)
		require.False(t, isClosed(l.Wanted()))
		require.NoError(t, l.Unlock(background))
	})
}
