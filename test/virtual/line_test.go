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

// die ends a process as its death does, noticed by the servers or not.
func (p *process) die(silently bool) {
	p.networks(func(n *memredis.Process) { n.Vanish(silently) })
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
			onEach(t, func(t *testing.T, w *world) {
				if !w.exclusive() || w.typ.redis > 1 || len(w.typ.names) > 1 {
					return
				}
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
	for what, leave := range map[string]func(p *process, cancel func()){
		"cancelled": func(_ *process, cancel func()) { cancel() },
		"closed":    func(p *process, _ func()) { _ = p.closeAll(time.Minute) },
		"dead":      func(p *process, _ func()) { p.die(false) },
		"lost":      func(p *process, _ func()) { p.die(true) },
		"frozen":    func(p *process, _ func()) { p.partition() },
	} {
		for name, writes := range map[string]bool{"writer": true, "reader": false} {
			t.Run(name+" "+what, func(t *testing.T) {
				alone(t, reader, func(t *testing.T, w *world) {
					side := func(p *process, writes bool) relock.Locker {
						if rw := p.s[0].RWMutex("a"); writes {
							return rw
						}
						return p.lock()
					}
					p, goes, next := w.process(), w.process(), w.process()
					held, l, after := side(p, !writes), side(goes, writes), side(next, !writes)
					require.NoError(t, held.Lock(background))
					ctx, cancel := context.WithCancel(background)
					defer cancel()
					left, got := make(chan error, 1), make(chan error, 1)
					go func() { left <- l.Lock(ctx) }()
					time.Sleep(time.Second)
					go func() { got <- after.Lock(background) }()
					time.Sleep(time.Second)
					require.Empty(t, got)
					leave(goes, cancel)
					synctest.Wait()
					start := time.Now()
					if writes {
						require.NoError(t, <-got)
						require.NoError(t, held.Err(), "who reads already is not disturbed")
					}
					require.NoError(t, held.Unlock(background))
					if !writes {
						require.NoError(t, <-got)
					}
					most := 100 * time.Millisecond
					if what == "lost" || what == "frozen" {
						most += claim
					}
					if writes && what != "cancelled" && what != "closed" {
						most += claim / 2 // until the one that waits looks
					}
					require.LessOrEqual(t, time.Since(start), most)
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
