package virtual_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
)

// A host with several processes stands still: all of them together cost one claim.
func TestFrozenHostOfManyProcessesCostsOneClaim(t *testing.T) {
	eachExclusive(t, func(t *testing.T, w *world) {
		holder, next := w.process(), w.process()
		held := holder.held()
		var frozen []*process
		for range 5 {
			p := w.process()
			p.wait(0)
			frozen = append(frozen, p)
		}
		got := next.wait(0)
		time.Sleep(time.Second)
		for _, p := range frozen {
			defer p.partition()()
		}
		start := time.Now()
		require.NoError(t, held.Unlock(background))
		assert.LessOrEqual(t, (<-got).Sub(start), 2*claim)
	})
}

// A session with short leases, far away, has a lock with a long lease.
func TestFarHoldOfLongLeaseInASessionOfShortOnes(t *testing.T) {
	for _, rtt := range []time.Duration{30 * time.Millisecond, 80 * time.Millisecond, 400 * time.Millisecond} {
		t.Run(rtt.String(), func(t *testing.T) {
			onEach(t, func(t *testing.T, w *world) {
				w.process()
				p := w.process(relock.WithLease(50 * time.Millisecond))
				p.delay(rtt / 2)
				l := p.lock(relock.WithLease(lease))
				require.NoError(t, l.Lock(background))
				time.Sleep(3 * lease)
				require.NoError(t, l.Err())
				require.NoError(t, l.Unlock(background))
			})
		})
	}
}

// The slot of the lock is half moved from the moment of the hand-over: a hold that was acquired survives that.
func TestHandedOverHoldOutlivesAHalfMovedSlot(t *testing.T) {
	for _, handedOver := range []bool{true, false} {
		t.Run(fmt.Sprint(handedOver), func(t *testing.T) {
			eachExclusive(t, func(t *testing.T, w *world) {
				from, p := w.process(), w.process()
				l := p.lock()
				if handedOver {
					l = p.handOver(from, time.Second)
				} else {
					require.NoError(t, l.Lock(background))
				}
				server := memredis.Of(w.redis[0], p.s[0]).Server()
				queue := "relock_queue:{a}"
				if w.readWrite() {
					queue = "relock_rwqueue:{a}"
				}
				defer server.FailKey(queue, "TRYAGAIN Multiple keys request during rehashing of slot")()
				time.Sleep(2 * claim)
				require.NoError(t, l.Err())
			})
		})
	}
}

// Nobody has the lock any more, by whose deletion nobody was granted it.
func TestUnlockOfADeletedClaimTellsTheLoss(t *testing.T) {
	eachExclusive(t, func(t *testing.T, w *world) {
		from, p := w.process(), w.process()
		l := p.handOver(from, 100*time.Millisecond)
		w.do("DEL", "a")
		require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
	})
}

// Somebody damages the fence of a lock that was just handed over.
func TestHandedOverHoldOutlivesADamagedFence(t *testing.T) {
	eachExclusive(t, func(t *testing.T, w *world) {
		from, p := w.process(), w.process()
		l := p.handOver(from, 100*time.Millisecond)
		w.do("DEL", "relock_fence:{a}")
		w.do("HSET", "relock_fence:{a}", "x", "y")
		time.Sleep(soon)
		err := l.Err()
		t.Log(err, w.fields(), w.ttl())
		require.NoError(t, err)
	})
}

// A fault of one process at any moment of a hand-over: exclusion, progress, and nothing is left.
func TestFaultAtEveryMomentOfAHandOver(t *testing.T) {
	faults := map[string]func(p *process){
		"lost reply":   func(p *process) { p.networks(func(n *memredis.Process) { n.DropReplies(1) }) },
		"lost replies": func(p *process) { p.networks(func(n *memredis.Process) { n.DropReplies(3) }) },
		"break":        func(p *process) { p.networks((*memredis.Process).Break) },
		"cut up": func(p *process) {
			p.networks(func(n *memredis.Process) { time.AfterFunc(time.Second, n.Cut(memredis.Up)) })
		},
		"cut down": func(p *process) {
			p.networks(func(n *memredis.Process) { time.AfterFunc(time.Second, n.Cut(memredis.Down)) })
		},
		"long cut":    func(p *process) { p.networks(func(n *memredis.Process) { time.AfterFunc(7*time.Second, n.Cut()) }) },
		"no messages": func(p *process) { p.networks(func(n *memredis.Process) { n.LoseMessage("granted ") }) },
	}
	for what, fault := range faults {
		t.Run(what, func(t *testing.T) {
			eachExclusive(t, func(t *testing.T, w *world) {
				ps := []*process{w.process(), w.process(), w.process()}
				ps[1].delay(3 * time.Millisecond)
				for round := range 12 {
					victim := ps[round%3]
					time.AfterFunc(time.Duration(round)*8500*time.Microsecond, func() { fault(victim) })
					var in atomic.Int64
					var wg sync.WaitGroup
					start := time.Now()
					for i, p := range ps {
						for j := range 3 {
							wg.Go(func() {
								l := p.lock(relock.WithLease([]time.Duration{lease, time.Second, 300 * time.Millisecond}[(i+j)%3]))
								if !assert.NoError(t, l.Lock(background)) {
									return
								}
								assert.EqualValues(t, 1, in.Add(1), "exclusion, round %d", round)
								select {
								case <-time.After(time.Duration(5+9*j) * time.Millisecond):
								case <-l.Done():
								}
								in.Add(-1)
								_ = l.Unlock(background)
							})
						}
					}
					wg.Wait()
					assert.LessOrEqual(t, time.Since(start), 4*claim, "round %d", round)
					victim.heal()
					ps[1].delay(3 * time.Millisecond)
					time.Sleep(lease + time.Second)
					c := w.redis[0].Client()
					keys, err := c.Do(background, c.B().Keys().Pattern("*").Build()).AsStrSlice()
					require.NoError(t, err)
					for _, k := range keys {
						assert.True(t, strings.HasPrefix(k, "relock_fence") || strings.HasPrefix(k, "relock_session"), "round %d: %s is left", round, k)
					}
				}
			})
		})
	}
}
