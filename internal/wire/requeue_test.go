package wire

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// again returns l with another hold id of its session: an entry that was removed comes back under a
// new one.
func again(l *Ref) *Ref {
	other := *l
	other.ID = strings.TrimSuffix(l.ID, l.Kind.Suffix()) + "9" + l.Kind.Suffix()
	return &other
}

// A waiter whose entry is gone queues again with its old score, and has its old place.
func TestRemovedEntryComesBackToItsPlace(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.goesOn()
		for _, k := range Kinds() {
			r.must("FLUSHALL")
			held := []*Ref{r.writer(1)}
			if k == Semaphore {
				held = []*Ref{r.lease(k, 1), r.lease(k, 2)}
			} else if k != Read {
				held = []*Ref{r.lease(k, 1)}
			}
			for _, l := range held {
				r.take(l)
			}
			first, second, third := r.lease(k, 3), r.lease(k, 4), r.lease(k, 5)
			score := r.refused(first, 0, time.Minute).Score
			require.InDelta(t, time.Now().UnixMicro(), score, 60e6)
			later := r.refused(second, 0, time.Minute).Score
			require.Greater(t, later, score)
			require.Equal(t, later, r.polls(second).Score)

			entry := first.Kind.of().entry(first)
			require.EqualValues(t, 1, r.int("ZREM", queueOfKind(k), entry))
			require.True(t, r.polls(first).Gone)
			back := again(first)
			reply, err := r.ask(back, Ask{Queue: true, Score: score})
			require.NoError(t, err)
			require.Equal(t, score, reply.Score)
			r.queues(third)
			r.mustQueue(queueOfKind(k), back, second, third)
		}
	})
}

// A waiter that is away at its turn is passed and removed. When it is back it is first again.
func TestAbsentWaiterIsPassedAndComesBackFirst(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		next := r.present("b")
		r.goesOn()
		for i, k := range []Kind{Plain, Fair, Write} {
			r.must("FLUSHALL")
			away := fmt.Sprint("a", i)
			hold, a, b, c := r.lease(k, 1), of(away, r.lease(k, 2)), of("b", r.lease(k, 3)), of("b", r.lease(k, 4))
			r.take(hold)
			score := r.refused(a, 0, time.Minute).Score
			r.queues(b, c)
			r.end(hold)
			r.held(b)
			r.mustQueue(queueOfKind(k), c)
			require.Equal(t, granted(b, r.lastToken(), "+"), next())

			r.present(away)
			require.True(t, r.polls(a).Gone)
			back := again(a)
			_, err := r.ask(back, Ask{Queue: true, Score: score})
			require.NoError(t, err)
			r.mustQueue(queueOfKind(k), back, c)
			r.end(b)
			r.held(back)
		}
	})
}

// The session whose script runs is there, and keeps its entries, although it is not subscribed.
func TestSessionWhoseScriptRunsIsThere(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		for _, k := range []Kind{Plain, Fair, Write} {
			r.must("FLUSHALL")
			hold, first, second := r.lease(k, 1), r.lease(k, 2), r.lease(k, 3)
			r.take(hold)
			r.queues(first, second)
			r.end(hold)
			r.held(first)
			r.mustQueue(queueOfKind(k), second)
			r.must("DEL", "a") // the lease runs out
			require.True(t, r.polls(second).Granted)
		}
	})
}

// Of a session whose lease has run out all entries are removed, before the next waiter is granted
// the lock, and one message tells it. A frozen host costs one grant timeout, however many of its
// goroutines wait.
func TestLeaseThatRunsOutEndsTheWaitOfItsSession(t *testing.T) {
	for what, find := range map[string]func(r *rig, k Kind, waits *Ref){
		"found by an acquisition": func(r *rig, k Kind, _ *Ref) { require.False(r.t, r.tries(of("d", r.lease(k, 9))).Granted) },
		"found by a poll":         func(r *rig, _ Kind, waits *Ref) { require.True(r.t, r.polls(waits).Granted) },
	} {
		t.Run(what, func(t *testing.T) {
			onRigs(t, func(t *testing.T, r *rig) {
				next := r.present("a", "b")
				for _, k := range []Kind{Plain, Fair, Write} {
					r.must("FLUSHALL")
					hold, waits := r.lease(k, 1), of("b", r.lease(k, 2))
					r.take(hold)
					var frozen []*Ref
					for n := range 4 {
						frozen = append(frozen, of("a", r.lease(k, 10+n)))
					}
					r.queues(frozen...)
					r.queues(waits)
					r.end(hold)
					r.held(frozen[0]) // it is frozen, and its grant runs out
					require.Contains(t, next(), " granted "+frozen[0].ID)
					r.must("DEL", "a")
					find(r, k, waits)
					r.held(waits)
					r.mustQueue(queueOfKind(k))
					require.Equal(t, polled(frozen[1:]...), next())
					if what == "found by an acquisition" {
						require.Contains(t, next(), " granted "+waits.ID)
					}
				}
			})
		})
	}
}

// A lease that ends by itself, one that was released, and one of Redisson end nobody's wait.
func TestLeaseThatEndsAsItShouldEndsNoWait(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.present("a", "b")
		for _, k := range []Kind{Plain, Write} {
			for what, lapse := range map[string]func(hold *Ref){
				"a fixed lease": func(hold *Ref) {
					hold.Renewed = false
					r.take(hold)
				},
				"a lease of Redisson's": func(hold *Ref) {
					r.take(hold)
					r.end(hold)
					r.redissonHas(k, time.Minute)
				},
				"a lease that rests": func(hold *Ref) {
					r.take(hold)
					hold.Rest = time.Minute
					r.end(hold)
				},
			} {
				r.must("FLUSHALL")
				lapse(of("a", r.lease(k, 1)))
				first, second := of("a", r.lease(k, 2)), of("b", r.lease(k, 3))
				r.queues(first, second)
				r.must("DEL", "a")
				require.False(t, r.polls(second).Granted, what)
				r.held(first)
			}
		}
	})
}

// Ten thousand entries of a session that is dead are passed, a thousand by each script. The last
// waiter is told to poll, and goes on at once until somebody has the lock.
func TestManyEntriesOfADeadSessionArePassed(t *testing.T) {
	r := newRig(t) // miniredis may take longer than a client waits
	r.present("b")
	for k, suffix := range map[Kind]string{Fair: "", Write: ":write"} {
		r.must("FLUSHALL")
		hold, waits := r.lease(k, 1), of("b", r.lease(k, 2))
		r.take(hold)
		dead(queueOfKind(k), 10_000, suffix)(r)
		r.queues(waits)
		t.Log(r.cost(func() { r.end(hold) }))
		scripts, reply := 1, Reply{}
		for ; !reply.Granted; scripts++ {
			reply = r.polls(waits)
			require.True(t, reply.Granted || reply.Wait == time.Millisecond, "%+v", reply)
		}
		require.InDelta(t, 10, scripts, 1)
		r.held(waits)
		r.mustQueue(queueOfKind(k))
	}
}

// A thousand readers of dead sessions are removed. Whoever finds that does not believe that it
// reads.
func TestManyDeadReadersMakeNobodyAReader(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		for what, find := range map[string]func(l *Ref) Reply{
			"an acquisition": func(l *Ref) Reply { return r.asks(l) },
			"a try":          func(l *Ref) Reply { return r.tries(l) },
			"a poll": func(l *Ref) Reply {
				r.must("ZADD", readQueue, "5000", l.ID)
				return r.polls(l)
			},
		} {
			r.must("FLUSHALL")
			dead(readQueue, 1000, "")(r)
			l := r.reader(2)
			reply := find(l)
			require.Equal(t, r.hash("a")[l.ID] == "1", reply.Granted, "%s: %+v", what, reply)
		}
	})
}

// A waiter whose lease is shorter than 5 s is granted the lock for no longer than that.
func TestGrantTimeoutIsThatOfTheWinner(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		for _, k := range []Kind{Plain, Fair, Write} {
			for _, length := range []time.Duration{time.Second, time.Minute} {
				r.must("FLUSHALL")
				h, l := r.lease(k, 1), r.lease(k, 2)
				l.Length, l.GrantFor = length, GrantOf(length)
				r.take(h)
				r.queues(l)
				r.end(h)
				r.held(l)
				r.mustNear("the grant", r.pttl("a"), min(length, GrantMost))
				r.end(l)
				r.mustKeys()
			}
		}
	})
}

// A live writer behind dead ones, as many as one script removes, and more or fewer, holds up new
// readers.
func TestReaderBehindManyDeadWriters(t *testing.T) {
	for _, n := range []int{999, 1000, 1100} {
		onRigs(t, func(t *testing.T, r *rig) {
			r.take(r.reader(1))
			r.queues(r.writer(2))
			dead("relock_rwqueue:{a}", n, ":write")(r)
			require.False(t, r.asks(r.reader(3)).Granted, "it has passed a writer that waits behind %d", n)
		})
	}
}

// TryLock of a free lock does not pass a waiter that is there, behind dead ones.
func TestTryPassesWaitersBehindDeadOnes(t *testing.T) {
	for _, k := range []Kind{Plain, Fair, Write, Semaphore} {
		for _, n := range []int{900, 1100} {
			r := newRig(t)
			suffix := k.Suffix()
			if k == Semaphore {
				suffix = " 1 5000"
			}
			lease := func(n int) *Ref {
				l := r.lease(k, n)
				l.Permits = min(l.Permits, 1)
				return l
			}
			r.take(lease(1))
			r.present("y")
			r.queues(of("y", lease(2)))
			dead(queueOfKind(k), n, suffix)(r)
			r.must("PEXPIRE", "a", "1")
			time.Sleep(20 * time.Millisecond)
			if r.tries(lease(3)).Granted {
				t.Error(k, n, "TryLock has passed a waiter that is there")
			}
		}
	}
}
