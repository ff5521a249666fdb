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

// queue returns the key of the queue of the lock "a".
func (w *world) queue() string {
	if w.readWrite() {
		return "relock_rwqueue:{a}"
	}
	return "relock_queue:{a}"
}

// A line is waiters for a lock, in order of arrival, behind a holder. Every third of them is doomed.
type line struct {
	held   relock.Locker
	doomed []*process // with no other waiters
	leave  []context.CancelFunc
	all    []*process
	turns  chan int
}

// newLine queues n waiters. The FairMutexes of a process have a place each; its other locks have one.
func newLine(w *world, n int) *line {
	q := &line{turns: make(chan int, n)}
	if w.typ == fair {
		n = 2 * n / 3
	}
	for i := range n {
		q.all = append(q.all, w.process())
		if i%3 == 2 {
			q.doomed = append(q.doomed, q.all[i])
		}
	}
	holder := w.process()
	q.held = holder.held()
	for i := range cap(q.turns) {
		ctx, cancel := context.WithCancel(background)
		if i%3 == 2 {
			q.leave = append(q.leave, cancel)
		}
		l := q.all[i%n].lock()
		go func() {
			defer cancel()
			if l.Lock(ctx) == nil {
				q.turns <- i
				_ = l.Unlock(background)
			}
		}()
		time.Sleep(100 * time.Millisecond)
	}
	return q
}

// next returns the next n turns, and how long they took.
func (q *line) next(n int) (turns []int, took time.Duration) {
	start := time.Now()
	for range n {
		turns = append(turns, <-q.turns)
	}
	return turns, time.Since(start)
}

// Whatever happens to some of them, waiters are granted the lock in order of arrival. One that is
// gone costs the others nothing if Redis knows it, and else a claim.
func TestWaitersAreGrantedTheLockInOrderOfArrival(t *testing.T) {
	const n = 9
	var everybody, stay []int
	for i := range n {
		everybody = append(everybody, i)
		if i%3 != 2 {
			stay = append(stay, i)
		}
	}
	each := func(f func(p *process)) func(q *line) {
		return func(q *line) {
			for _, p := range q.doomed {
				f(p)
			}
		}
	}
	for what, c := range map[string]struct {
		harm  func(q *line)
		left  []int
		claim time.Duration // that one which is gone costs
	}{
		"nothing": {func(*line) {}, everybody, 0},
		"they leave": {func(q *line) {
			for _, leave := range q.leave {
				leave()
			}
		}, stay, 0},
		"they close":        {each(func(p *process) { _ = p.closeAll(time.Minute) }), stay, 0},
		"they die":          {each(func(p *process) { p.die(false) }), stay, 0},
		"they die silently": {each(func(p *process) { p.die(true) }), stay, claim},
		"they stand still":  {each(func(p *process) { p.partition() }), stay, claim},
		"everything stands still": {func(q *line) {
			for _, p := range q.all {
				time.AfterFunc(2*time.Second, p.partition())
			}
		}, everybody, 2 * time.Second},
		"connections break": {func(q *line) {
			for _, p := range q.all {
				p.networks((*memredis.Process).Break)
			}
			time.Sleep(time.Second)
		}, everybody, 0},
	} {
		t.Run(what, func(t *testing.T) {
			eachExclusive(t, func(t *testing.T, w *world) {
				q := newLine(w, n)
				c.harm(q)
				synctest.Wait()
				require.NoError(t, q.held.Unlock(background))
				turns, took := q.next(len(c.left))
				require.Equal(t, c.left, turns)
				require.LessOrEqual(t, took, n/3*c.claim+100*time.Millisecond)
				for _, p := range q.all {
					p.heal()
				}
				if what == "they stand still" { // and go on: they have not had the lock, and queue again
					late, _ := q.next(n - len(stay))
					require.False(t, slices.ContainsFunc(late, func(i int) bool { return i%3 != 2 }))
				}
				time.Sleep(time.Minute)
				require.Empty(t, q.turns)
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
			require.Zero(t, time.Since(start))
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
