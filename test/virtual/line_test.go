package virtual_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/memredis"
)

// queue returns the key of the queue of the lock "a".
func (w *world) queue() string {
	if w.readWrite() {
		return "relock_rwqueue:{a}"
	}
	return "relock_queue:{a}"
}

// Whatever happens to some of them, waiters are granted the lock in order of arrival. Those that are
// gone cost the others nothing if Redis knows it, and else a grant timeout for each session: here two,
// since the third comes after all others.
func TestWaitersAreGrantedTheLockInOrderOfArrival(t *testing.T) {
	for what, c := range map[string]struct {
		harm func(p *process, leave func())
		all  bool // are harmed, or every third, with no other waiters in its process
		cost time.Duration
	}{
		"nothing":           {func(*process, func()) {}, true, 0},
		"they leave":        {func(_ *process, leave func()) { leave() }, false, 0},
		"they close":        {func(p *process, _ func()) { _ = p.closeAll(time.Minute) }, false, 0},
		"they die":          {func(p *process, _ func()) { p.die(false) }, false, 0},
		"they die silently": {func(p *process, _ func()) { p.die(true) }, false, 2*claim + claim/3},
		"they stand still":  {func(p *process, _ func()) { p.partition() }, false, 2*claim + claim/3},
		"all stand still for a while": {func(p *process, _ func()) {
			time.AfterFunc(2*time.Second, p.partition())
		}, true, 2 * time.Second},
		"connections break": {func(p *process, _ func()) { p.networks((*memredis.Process).Break) }, true, 0},
	} {
		t.Run(what, func(t *testing.T) {
			eachExclusive(t, func(t *testing.T, w *world) {
				const n = 9
				var ps []*process
				for range n {
					ps = append(ps, w.process())
				}
				if w.typ == fair {
					ps = ps[:6] // each of its calls has a place
				}
				held := w.process().held()
				turns := make(chan int, n)
				var harms []func()
				var stay, gone []int
				for i := range n {
					p := ps[i%len(ps)]
					ctx, leave := context.WithCancel(background)
					defer leave()
					l := p.lock()
					go func() {
						if l.Lock(ctx) == nil {
							turns <- i
							_ = l.Unlock(background)
						}
					}()
					time.Sleep(100 * time.Millisecond)
					if c.all || i%3 == 2 {
						harms = append(harms, func() { c.harm(p, leave) })
					}
					if c.all || i%3 != 2 {
						stay = append(stay, i)
					} else {
						gone = append(gone, i)
					}
				}
				for _, harm := range harms {
					harm()
				}
				if what == "connections break" {
					time.Sleep(time.Second)
				}
				synctest.Wait()
				start := time.Now()
				require.NoError(t, held.Unlock(background))
				for _, i := range stay {
					require.Equal(t, i, <-turns)
				}
				require.LessOrEqual(t, time.Since(start), c.cost+100*time.Millisecond)
				for _, p := range ps {
					p.heal()
				}
				if what == "they stand still" { // and go on: they have not had the lock, and queue again
					for range gone {
						require.Contains(t, gone, <-turns)
					}
				}
				time.Sleep(time.Minute)
				require.Empty(t, turns)
				require.True(t, w.free())
			})
		})
	}
}

// A waiter keeps nobody out, and nobody waits for it, once it is gone.
func TestWaiterOfAnRWMutexThatIsGoneStopsNobody(t *testing.T) {
	const moment = 100 * time.Millisecond
	for what, c := range map[string]struct {
		leave func(p *process, cancel func())
		most  map[*lockType]time.Duration // that the next waits: behind a writer until it looks, behind a reader a claim
	}{
		"cancelled": {func(_ *process, cancel func()) { cancel() }, nil},
		"closed":    {func(p *process, _ func()) { _ = p.closeAll(time.Minute) }, nil},
		"dead":      {func(p *process, _ func()) { p.die(false) }, map[*lockType]time.Duration{writer: claim / 2}},
		"lost": {func(p *process, _ func()) { p.die(true) }, map[*lockType]time.Duration{
			writer: claim + claim/2, reader: claim,
		}},
		"frozen": {func(p *process, _ func()) { p.partition() }, map[*lockType]time.Duration{
			writer: claim + claim/2, reader: claim,
		}},
	} {
		for _, sides := range [][2]*lockType{{writer, reader}, {reader, writer}} {
			t.Run(sides[0].name+" "+what, func(t *testing.T) {
				alone(t, sides[0], func(t *testing.T, w *world) {
					p, goes, next := w.process(), w.process(), w.process()
					held, l, after := sides[1].make(p.s), sides[0].make(goes.s), sides[1].make(next.s)
					require.NoError(t, held.Lock(background))
					ctx, cancel := context.WithCancel(background)
					defer cancel()
					left := begin(ctx, l)
					time.Sleep(time.Second)
					got := locking(after)
					require.Empty(t, got)
					c.leave(goes, cancel)
					synctest.Wait()
					start := time.Now()
					if sides[0] == writer {
						require.NoError(t, <-got)
						require.NoError(t, held.Err(), "who reads already is not disturbed")
					}
					require.NoError(t, held.Unlock(background))
					if sides[0] == reader {
						require.NoError(t, <-got)
					}
					require.LessOrEqual(t, time.Since(start), moment+c.most[sides[0]])
					require.NoError(t, after.Unlock(background))
					if what == "frozen" {
						goes.heal()
						require.NoError(t, <-left)
						require.NoError(t, l.Unlock(background))
					}
					time.Sleep(2 * claim) // one that is lost is granted the lock once more
					require.True(t, w.free())
				})
			})
		}
	}
}

// A waiter that stood still when its turn came does not believe to have the lock, which others have had
// since. It queues again, and keeps that place, although the queue itself would expire after 15 s.
func TestWaiterThatWasPassedOverQueuesAgain(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		if !w.exclusive() || w.typ.redis > 1 {
			return
		}
		holder, p, other := w.process(), w.process(), w.process()
		c := w.redis[0].Client()
		for range 5 {
			held, l, next := holder.held(), p.lock(), other.lock()
			got := locking(l)
			last := locking(next)
			heal := p.partition()
			require.NoError(t, held.Unlock(background))
			require.NoError(t, <-last)
			heal()
			time.Sleep(2 * time.Second)
			places := func() []string {
				ids, err := c.Do(background, c.B().Zrange().Key(w.queue()).Min("0").Max("-1").Build()).AsStrSlice()
				require.NoError(t, err)
				return ids
			}
			before := places()
			require.Len(t, before, 1)
			for range 40 {
				time.Sleep(time.Second)
				require.Equal(t, before, places())
			}
			require.Empty(t, got)
			require.NoError(t, next.Err())
			require.NoError(t, next.Unlock(background))
			start := time.Now()
			require.NoError(t, <-got)
			require.Less(t, time.Since(start), time.Millisecond) // a Group may find a member that is just being unlocked
			require.NoError(t, l.Unlock(background))
			time.Sleep(time.Second)
		}
	})
}

// A release that falls into the gap between two subscriptions, or whose message is lost with the
// connection, is found when the waiter is subscribed again: long before it would look by itself.
func TestNoWakeUpIsLostWithASubscription(t *testing.T) {
	for _, after := range []time.Duration{-time.Second, -time.Millisecond, 0, time.Millisecond, 50 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			onEach(t, func(t *testing.T, w *world) {
				p, other := w.process(), w.process()
				for i := range 4 {
					l, next := p.held(), other.opposite()
					got := begin(background, next)
					time.Sleep(10*time.Second + time.Duration(i)*797*time.Millisecond) // at any point between two looks
					time.AfterFunc(2*time.Second, func() {
						for k, r := range w.redis {
							r.Disconnect(other.s[k])
						}
					})
					time.Sleep(2*time.Second + after)
					start := time.Now()
					require.NoError(t, l.Unlock(background))
					require.NoError(t, <-got)
					require.LessOrEqual(t, time.Since(start), w.slow()+max(0, -after)+500*time.Millisecond)
					require.NoError(t, next.Unlock(background))
					time.Sleep(time.Second)
				}
			})
		})
	}
}
