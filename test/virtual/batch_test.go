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
)

const noRight = "NOPERM No permissions to access a key"

// A key that the user might no longer renew cost all holds of its batch.
func TestForbiddenKeyCostsNoOtherHold(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		l := p.held()
		var bad []relock.Locker
		for i, s := range p.s {
			for name, l := range map[string]relock.Locker{
				"bad": s.Mutex("bad"), "bad writer": s.RWMutex("bad writer"), "bad reader": s.RWMutex("bad reader").RLocker(),
			} {
				require.NoError(t, l.Lock(background))
				memredis.Of(w.redis[i], s).Server().FailKey(name, noRight)
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
	for what, damage := range map[string]func(s *memredis.Server){
		"WRONGTYPE": func(s *memredis.Server) { // found when the free lock is granted
			s.Mini.Del("a")
			s.Mini.Del("relock_fence:{a}")
			_, _ = s.Mini.Push("relock_fence:{a}", "no token")
		},
		"NOPERM": func(s *memredis.Server) { s.FailKey("a", noRight) },
	} {
		for i := range lockTypes[:3] {
			t.Run(what+" "+lockTypes[i].name, func(t *testing.T) {
				alone(t, &lockTypes[i], func(t *testing.T, w *world) {
					p, other := w.process(), w.process()
					server := memredis.Of(w.redis[0], p.s[0]).Server()
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
					good := func(s *relock.Session) []relock.Locker {
						return []relock.Locker{s.Mutex("good 1"), s.FairMutex("good 2"), s.RWMutex("good 3"), s.RWMutex("good 4")}
					}
					p.held()
					bad, held, waits := begin(background, other.lock()), good(p.s[0]), good(other.s[0])
					waits[3] = other.s[0].RWMutex("good 4").RLocker()
					var got []<-chan error
					for i, l := range held {
						require.NoError(t, l.Lock(background))
						for range 3 {
							got = append(got, lockAndUnlock(waits[i]))
						}
					}
					time.Sleep(time.Second)
					before := queues()
					require.Len(t, before, len(held))
					damage(server)
					w.redis[0].Disconnect(other.s[0]) // it looks at all of them when it is back
					require.ErrorContains(t, <-bad, what)
					time.Sleep(3 * claim)
					require.Equal(t, before, queues(), "places")
					for _, l := range held {
						require.NoError(t, l.Unlock(background))
					}
					for _, got := range got {
						require.NoError(t, <-got)
					}
				})
			})
		}
	}
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
		allow := memredis.Of(w.redis[0], other.s[0]).Server().FailKey(w.typ.names[0], noRight)
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
