package virtual_test

import (
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// A keepTold keeps what an observer is told of leases that are kept, and when.
type keepTold struct {
	relock.NopObserver
	mu     sync.Mutex
	events []relock.KeepEvent
	times  []time.Time
}

func (k *keepTold) Kept(e relock.KeepEvent) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events, k.times = append(k.events, e), append(k.times, time.Now())
}

// take returns the events since the last take.
func (k *keepTold) take() []relock.KeepEvent {
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	events := k.events
	k.events = nil
	return events
}

// State says whether this session keeps the lock and nobody uses it, and to no other session.
func TestStateTellsOfAKeptLock(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		here, there := w.process(), w.process()
		kept := func(p *process, want bool) {
			t.Helper()
			st, err := p.s[0].Inspect(background, "a")
			require.NoError(t, err)
			require.Equal(t, want, st.Kept)
			require.False(t, st.Kept && st.Mode != relock.Exclusive)
		}
		kept(here, false)
		l := here.s[0].Mutex("a", relock.WithKeep(5*time.Minute))
		for range 3 {
			require.NoError(t, l.Lock(background))
			kept(here, false)
			kept(there, false)
			require.NoError(t, l.Unlock(background))
			kept(here, true)
			kept(there, false)
			time.Sleep(time.Minute) // it is renewed
			kept(here, true)
		}
		other := there.held() // recalls it
		kept(here, false)
		kept(there, false)
		require.NoError(t, other.Unlock(background))
		kept(here, false)
		time.Sleep(5 * time.Minute) // nobody has had it lately
		pair(t, l)
		kept(here, true)
		was, err := there.s[0].ForceUnlock(background, "a")
		require.NoError(t, err)
		require.True(t, was)
		synctest.Wait()
		kept(here, false)
		pair(t, l)
		kept(here, false) // nobody had it the last time
		pair(t, l)
		kept(here, true)
		time.Sleep(6 * time.Minute)
		kept(here, false)
	})
}

// The observer is told of the number of leases that are kept when it is another one, at once, but not
// twice a second. Close ends all.
func TestObserverIsToldHowManyLeasesAreKept(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		told := new(keepTold)
		p := w.process(relock.WithObserver(told))
		id := p.s[0].ID()
		time.Sleep(time.Minute)
		require.Empty(t, told.take())
		lock := func(i int) *relock.Mutex { return p.s[0].Mutex("l"+strconv.Itoa(i), relock.WithKeep(time.Minute)) }
		wants := func(n ...int) {
			t.Helper()
			var want []relock.KeepEvent
			for _, n := range n {
				want = append(want, relock.KeepEvent{Session: id, Leases: n})
			}
			require.Equal(t, want, told.take())
		}
		pair(t, lock(0))
		wants(1)
		for i := range 20 {
			pair(t, lock(i))
		}
		wants()
		time.Sleep(time.Second)
		wants(20)
		for i := range 5 {
			require.NoError(t, lock(i).Lock(background))
		}
		time.Sleep(time.Second)
		wants(15)
		_, err := w.process().s[0].ForceUnlock(background, "l10")
		require.NoError(t, err)
		time.Sleep(time.Second)
		wants(14)
		time.Sleep(2 * time.Minute)
		wants(0)
		pair(t, lock(30))
		wants(1)
		pair(t, lock(31)) // told by Close alone, with the end of all
		require.NoError(t, p.s[0].Close(background))
		wants(0)
		time.Sleep(time.Minute)
		wants()
	})
}

// However often the number changes, and whoever changes it, it is told once a second at most, and truly in the end.
func TestObserverIsToldOfKeptLeasesOnceASecond(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		told := new(keepTold)
		p := w.process(relock.WithObserver(told))
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				for n := range 50 {
					l := p.s[0].Mutex(strconv.Itoa(i)+"-"+strconv.Itoa(n), relock.WithKeep(time.Duration(n*i%7+1)*time.Second))
					for range 3 {
						pair(t, l)
						time.Sleep(time.Duration(i*37%100) * time.Millisecond)
					}
				}
			})
		}
		all.Wait()
		time.Sleep(time.Minute)
		events := told.take()
		require.Greater(t, len(events), 3)
		require.Zero(t, events[len(events)-1].Leases)
		last := 0
		for i, e := range events {
			require.NotEqual(t, last, e.Leases, "it has not changed")
			require.LessOrEqual(t, e.Leases, 500)
			require.GreaterOrEqual(t, e.Leases, 0)
			if last = e.Leases; i > 0 {
				require.GreaterOrEqual(t, told.times[i].Sub(told.times[i-1]), time.Second)
			}
		}
	})
}

// Shutdown releases what is kept, and says so; a session that has kept nothing says nothing.
func TestObserverIsToldOfKeptLeasesOfAShutdown(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		told := new(keepTold)
		p, idle := w.process(relock.WithObserver(told)), w.process(relock.WithObserver(told))
		pair(t, p.s[0].Mutex("b", keeps))
		require.Equal(t, []relock.KeepEvent{{Session: p.s[0].ID(), Leases: 1}}, told.take())
		require.NoError(t, idle.s[0].Shutdown(background))
		require.Empty(t, told.take())
		require.NoError(t, p.s[0].Shutdown(background))
		require.Equal(t, []relock.KeepEvent{{Session: p.s[0].ID()}}, told.take())
	})
}

// A hold from a lease that was kept is told as such, and as one that cost no round trip. One that was passed on or
// asked for is not.
func TestObserverIsToldOfAHoldThatWasKept(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		r := new(recorder)
		p := w.process(relock.WithObserver(r), relock.WithTenure(time.Hour))
		r.take()
		l := p.s[0].Mutex("a", keeps)
		got := func() relock.AcquireEvent {
			t.Helper()
			var all []relock.AcquireEvent
			for _, e := range r.take() {
				if e, is := e.of.(relock.AcquireEvent); is {
					all = append(all, e)
				}
			}
			require.Len(t, all, 1)
			return all[0]
		}
		want := func(local, kept bool) {
			t.Helper()
			e := got()
			require.NoError(t, e.Err)
			require.True(t, e.Held)
			require.Equal(t, local, e.Local)
			require.Equal(t, kept, e.Kept)
			require.Positive(t, e.Token)
		}
		pair(t, l)
		want(false, false)
		pair(t, l) // the first token of a name is alone
		r.take()
		for range 3 {
			pair(t, l)
			want(true, true)
			ok, err := l.TryLock(background)
			require.NoError(t, err)
			require.True(t, ok)
			want(true, true)
			require.NoError(t, l.Unlock(background))
			r.take()
		}
		require.NoError(t, l.Lock(background))
		want(true, true)
		next := begin(background, p.s[0].Mutex("a"))
		synctest.Wait()
		r.take()
		require.NoError(t, l.Unlock(background))
		require.NoError(t, <-next)
		want(true, false) // passed on
	})
}
