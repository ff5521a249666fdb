package virtual_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
	"github.com/relock-go/relock/internal/peek"
)

// Whatever somebody does to the keys behind the holder's back, the next renewal finds out, and
// touches nothing that is not the holder's.
func TestHoldThatIsGoneIsLostAtTheNextRenewal(t *testing.T) {
	for what, harm := range map[string]func(w *world){
		"flushed":   func(w *world) { w.do("FLUSHALL") },
		"restarted": func(w *world) { w.restart(false) },
		"deleted":   func(w *world) { w.do(append([]string{"DEL"}, w.typ.names...)...) },
		"another's": func(w *world) {
			for _, name := range w.typ.names {
				w.do("DEL", name)
				w.do("HSET", name, "7b1c5a52-5a0e-4c57-9b55-0d8f8d1a6c11:47", "1")
				w.do("PEXPIRE", name, "600000")
			}
		},
		"of another type": func(w *world) {
			for _, name := range w.typ.names {
				w.do("SET", name, "text", "PX", "600000")
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			onEach(t, func(t *testing.T, w *world) {
				seen := new(losses)
				p := w.process(relock.WithObserver(seen))
				bystander := p.s[0].Mutex("bystander")
				require.NoError(t, bystander.Lock(background))
				start := time.Now()
				l := p.held()
				time.Sleep(lease / 5)
				harm(w)
				w.do("PEXPIRE", "bystander", "60000") // is there, or is not
				require.NoError(t, l.Err(), "not known yet")
				require.Equal(t, lease/3, lost(t, l).Sub(start))
				require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
				require.ErrorIs(t, l.Unlock(background), relock.ErrNotHeld)
				if w.typ.redis == 1 && len(w.typ.names) == 1 { // those made of several tell of each and of themselves
					require.Len(t, seen.causes(), 1+map[bool]int{true: 1}[bystander.Err() != nil])
				}
				switch what {
				case "another's", "of another type":
					require.InDelta(t, 10*time.Minute, w.ttl(), float64(10*time.Second), "nobody else's time to live changes")
				default:
					require.NoError(t, p.held().Unlock(background))
				}
			})
		})
	}
}

// A fault that ends before the deadline costs nothing: the hold is renewed after it.
func TestFaultShorterThanTheLeaseLosesNothing(t *testing.T) {
	for what, fault := range map[string]func(w *world, p *process) (end func()){
		"partition":    func(_ *world, p *process) func() { return p.partition() },
		"disconnected": func(w *world, p *process) func() { p.networks((*memredis.Process).Break); return func() {} },
		"refused":      func(_ *world, p *process) func() { p.refuse(); return p.heal },
		"restarted":    func(w *world, _ *process) func() { w.restart(true); return func() {} },
		"lost replies": func(_ *world, p *process) func() {
			p.networks(func(n *memredis.Process) { n.DropReplies(1) })
			return func() {}
		},
		"slow": func(_ *world, p *process) func() { p.delay(lease / 8); return func() { p.delay(0) } },
	} {
		t.Run(what, func(t *testing.T) {
			onEach(t, func(t *testing.T, w *world) {
				p := w.process()
				l := p.held()
				before := w.fields()
				for range 3 {
					time.Sleep(lease / 4)
					end := fault(w, p)
					time.Sleep(lease / 2)
					end()
					time.Sleep(lease / 4) // it is renewed
					require.NoError(t, l.Err())
					require.Equal(t, before, w.fields())
					require.Greater(t, w.ttl(), lease/2)
				}
				require.NoError(t, l.Unlock(background))
				time.Sleep(time.Second)
				require.True(t, w.free())
			})
		})
	}
}

// Renewals whose replies are lost make the keys live longer than the holder can know. Once that has
// lost the lock, or has unlocked it, they are released as soon as Redis can be reached.
func TestKeyThatOutlivesItsDeadlineIsReleased(t *testing.T) {
	for what, end := range map[string]func(t *testing.T, l relock.Locker){
		"lost":     func(t *testing.T, l relock.Locker) { lost(t, l) },
		"unlocked": func(t *testing.T, l relock.Locker) { require.NoError(t, l.Unlock(background)) },
	} {
		t.Run(what, func(t *testing.T) {
			onEach(t, func(t *testing.T, w *world) {
				p := w.process()
				start := time.Now()
				l := p.held()
				time.Sleep(lease/3 - time.Second)
				p.networks(func(n *memredis.Process) { n.DropReplies(1000); n.Delay(100 * time.Millisecond) })
				time.Sleep(3 * time.Second) // it was executed, whenever it had its turn
				p.refuse()
				require.Greater(t, w.ttl(), lease*9/10)
				end(t, l)
				time.Sleep(time.Until(start.Add(lease))) // the time of the last reply is over
				require.False(t, w.free())
				p.heal()
				time.Sleep(5 * time.Second)
				require.True(t, w.free())
			})
		})
	}
}

// No reply is accepted that comes when the lease it grants may have ended.
func TestGrantThatComesTooLateIsNone(t *testing.T) {
	const short, delay = time.Second, 600 * time.Millisecond
	onEach(t, func(t *testing.T, w *world) {
		p := w.process(relock.WithLease(short))
		p.delay(delay)
		ok, err := p.lock().TryLock(background)
		require.False(t, ok)
		require.Error(t, err)
		ctx, cancel := context.WithTimeout(background, 6*short)
		defer cancel()
		require.ErrorIs(t, p.lock().Lock(ctx), context.DeadlineExceeded) // which tries again
		p.delay(0)
		time.Sleep(4 * short)
		require.True(t, w.free())
		ok, err = p.lock().TryLock(background)
		require.NoError(t, err)
		require.True(t, ok)
	})
}

// A suspend is noticed although nobody calls: the clock looks for one every 250 ms.
func TestSuspendPastTheDeadlineIsNoticed(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		done := p.held().Done()             // Done itself would find the hold expired
		time.Sleep(1300 * time.Millisecond) // nobody else asks for the time soon
		for _, s := range p.s {
			peek.Engine(s).Clock.Skip(time.Hour)
		}
		start := time.Now()
		<-done
		require.LessOrEqual(t, time.Since(start), 250*time.Millisecond)
	})
}

// Nobody calls, and nobody would be told of a loss: the next probe of the subscription, a second
// later at most, finds that the machine was suspended, and what is left of the lease is renewed.
func TestLeaseIsRenewedSoonAfterASuspend(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		l := p.held()
		time.Sleep(time.Second)
		for _, s := range p.s {
			peek.Engine(s).Clock.Skip(certain(lease) - 3*time.Second)
		}
		time.Sleep(lease / 3)
		require.NoError(t, l.Err())
	})
}

// The lease runs out in Redis after the loss was told, and the next one gets in then.
func TestLockOfACutOffHolderIsFreeAfterItsLease(t *testing.T) {
	for _, d := range lengths {
		t.Run(d.String(), func(t *testing.T) {
			onEach(t, func(t *testing.T, w *world) {
				p, other := w.process(), w.process()
				start := time.Now()
				l := p.held(relock.WithLease(d))
				time.Sleep(d / 4)
				p.partition()
				require.NoError(t, other.opposite().Lock(background))
				require.GreaterOrEqual(t, time.Since(start), d)
				require.LessOrEqual(t, time.Since(start), d+w.slow()+time.Second)
				require.ErrorIs(t, l.Err(), relock.ErrLost)
			})
		})
	}
}
