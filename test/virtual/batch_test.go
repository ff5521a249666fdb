package virtual_test

import (
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
	"github.com/relock-go/relock/relocktest"
)

// A key that the user might no longer renew cost all holds of its batch.
func TestForbiddenKeyCostsNoOtherHold(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		l := p.held()
		var bad []relock.Locker
		for i, r := range w.redis {
			s := p.s[i]
			for name, l := range map[string]relock.Locker{
				"bad": s.Mutex("bad"), "bad writer": s.RWMutex("bad writer"), "bad reader": s.RWMutex("bad reader").RLocker(),
			} {
				require.NoError(t, l.Lock(background))
				memredis.Of(r, s).Server().FailKey(name, "NOPERM No permissions to access a key")
				bad = append(bad, l)
			}
		}
		start := time.Now()
		for _, l := range bad {
			require.Equal(t, told(lease), lost(t, l).Sub(start).Round(time.Millisecond))
		}
		time.Sleep(10 * lease)
		require.NoError(t, l.Err())
		require.Greater(t, w.ttl(), lease/2)
		require.NoError(t, l.Unlock(background))
	})
}

// The damaged token of one free lock failed the looks at all locks that its process waited for: their
// waiters lost their places.
func TestDamagedLockCostsNoOtherWaiterItsPlace(t *testing.T) {
	t.Parallel()
	mutex := func(s *relock.Session, name string) relock.Locker { return s.Mutex(name) }
	fair := func(s *relock.Session, name string) relock.Locker { return s.FairMutex(name) }
	writer := func(s *relock.Session, name string) relock.Locker { return s.RWMutex(name) }
	reader := func(s *relock.Session, name string) relock.Locker { return s.RWMutex(name).RLocker() }
	type lockOf = func(s *relock.Session, name string) relock.Locker
	for kind, of := range map[string]struct{ holds, waits lockOf }{
		"Mutex": {mutex, mutex}, "FairMutex": {fair, fair}, "writer": {writer, writer}, "reader": {writer, reader},
	} {
		for what, damage := range map[string]func(s *memredis.Server){
			"WRONGTYPE": func(s *memredis.Server) { // found when the free lock is granted
				s.Mini.Del("bad")
				s.Mini.Del("relock_fence:{bad}")
				_, err := s.Mini.Push("relock_fence:{bad}", "no token")
				require.NoError(t, err)
			},
			"NOPERM": func(s *memredis.Server) { s.FailKey("bad", "NOPERM No permissions to access a key") },
		} {
			t.Run(kind+" "+what, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := relocktest.New(t)
					a, b := r.Session(), r.Session()
					server := memredis.Of(r, a).Server()
					queues := func() (all []map[string]float64) {
						for _, key := range server.Mini.Keys() {
							if strings.Contains(key, "queue:{good") {
								queue, err := server.Mini.SortedSet(key)
								require.NoError(t, err)
								all = append(all, maps.Clone(queue)) // it is the server's own
							}
						}
						return all
					}
					var held []relock.Locker
					var got []chan error
					waits := func(l relock.Locker) {
						got = append(got, make(chan error, 1))
						go func(got chan error) {
							err := l.Lock(background)
							if err == nil {
								err = l.Unlock(background)
							}
							got <- err
						}(got[len(got)-1])
					}
					for _, name := range []string{"bad", "good 1", "good 2", "good 3"} {
						l := of.holds(a, name)
						require.NoError(t, l.Lock(background))
						if name == "bad" {
							waits(of.holds(b, name))
							continue
						}
						held = append(held, l)
						for range 3 {
							waits(of.waits(b, name))
						}
					}
					synctest.Wait()
					time.Sleep(time.Second)
					before := queues()
					require.Len(t, before, 3)
					damage(server)
					r.Disconnect(b) // it looks at all of them when it is back
					require.ErrorContains(t, <-got[0], what)
					time.Sleep(3 * claim)
					require.Equal(t, before, queues(), "places")
					for _, l := range held {
						require.NoError(t, l.Unlock(background))
					}
					for _, got := range got[1:] {
						require.NoError(t, <-got)
					}
				})
			})
		}
	}
}

// One script releases the members of a group.
func TestForbiddenMemberKeepsNoOtherOfItsGroupHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := relocktest.New(t)
		s := r.Session()
		g := relock.NewGroup(s.Mutex("a"), s.Mutex("b"), s.Mutex("c"))
		require.NoError(t, g.Lock(background))
		server := memredis.Of(r, s).Server()
		server.FailKey("b", "NOPERM No permissions to access a key")
		require.NoError(t, g.Unlock(background))
		require.False(t, server.Mini.Exists("a"))
		require.True(t, server.Mini.Exists("b"))
		require.False(t, server.Mini.Exists("c"))
	})
}

// Waiters that a missing right has ended left their places in the queue, each of which cost a claim once the right
// was back.
func TestPlacesOfRefusedWaitersAreGivenBack(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		if !w.exclusive() || w.typ.redis > 1 {
			return // readers wait for none of their own, and a Redlock has no places
		}
		p, other := w.process(), w.process()
		l := p.held()
		var refused []<-chan error
		for range 3 {
			refused = append(refused, begin(background, other.lock()))
		}
		time.Sleep(time.Second)
		allow := memredis.Of(w.redis[0], other.s[0]).Server().FailKey(w.typ.names[0], "NOPERM No permissions to access a key")
		for _, got := range refused {
			require.ErrorContains(t, <-got, "NOPERM")
		}
		allow()
		time.Sleep(3 * time.Second) // the pauses between two tries are 2 s at most
		next := begin(background, w.process().lock())
		synctest.Wait()
		require.NoError(t, l.Unlock(background))
		start := time.Now()
		require.NoError(t, <-next)
		require.Less(t, time.Since(start), time.Second)
	})
}
