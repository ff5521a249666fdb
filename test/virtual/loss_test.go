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

// del deletes the keys of the lock.
func (w *world) del() { w.do(append([]string{"DEL"}, w.typ.names...)...) }

// Whatever somebody does to the keys behind the holder's back, the next renewal finds out, and
// touches nothing that is not the holder's.
func TestHoldThatIsGoneIsLostAtTheNextRenewal(t *testing.T) {
	for what, harm := range map[string]func(w *world){
		"flushed":   func(w *world) { w.do("FLUSHALL") },
		"restarted": func(w *world) { w.restart(false) },
		"deleted":   (*world).del,
		"another's": func(w *world) {
			w.del()
			for _, name := range w.typ.names {
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
				seen := new(recorder)
				p := w.process(relock.WithObserver(seen))
				bystander := p.s[0].Mutex("bystander")
				require.NoError(t, bystander.Lock(background))
				start := time.Now()
				l := p.held()
				time.Sleep(lease / 5)
				harm(w)
				w.do("PEXPIRE", "bystander", "60000") // is there, or is not
				require.NoError(t, l.Err(), "not known yet")
				if told := lost(t, l).Sub(start); what == "restarted" { // it renews once it is connected again
					require.Less(t, told, lease/5+3*time.Second)
				} else {
					require.Equal(t, lease/3, told)
				}
				require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
				require.ErrorIs(t, l.Unlock(background), relock.ErrNotHeld)
				require.Len(t, seen.takeLosses(), 1+map[bool]int{true: 1}[bystander.Err() != nil])
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

// A fault of half the lease costs nothing, even if it begins when the renewal is due: the hold is renewed after it.
func TestFaultOfHalfALeaseLosesNothing(t *testing.T) {
	for what, fault := range map[string]func(w *world, p *process) (end func()){
		"partition":    func(_ *world, p *process) func() { return p.partition() },
		"disconnected": func(w *world, p *process) func() { p.networks((*memredis.Process).Break); return func() {} },
		"refused":      func(_ *world, p *process) func() { p.refuse(); return p.heal },
		"restarted":    func(w *world, _ *process) func() { w.restart(true); return func() {} },
		"lost replies": func(_ *world, p *process) func() { p.loseReply(); return func() {} },
		"slow":         func(_ *world, p *process) func() { p.delay(lease / 8); return func() { p.delay(0) } },
	} {
		t.Run(what, func(t *testing.T) {
			onEach(t, func(t *testing.T, w *world) {
				p := w.process()
				l := p.held()
				before := w.fields()
				for range 3 {
					time.Sleep(lease/3 - time.Millisecond)
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

// A suspend is noticed although nobody calls: the clock looks for one every 250 ms. Past the deadline the loss is
// told, and before it what is left of the lease is renewed.
func TestSuspendIsNoticedThoughNobodyCalls(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for past, suspend := range map[bool]time.Duration{true: time.Hour, false: certain(lease) - 3*time.Second} {
			p := w.process()
			l := p.held()
			done := l.Done()                    // Done itself would find the hold expired
			time.Sleep(1300 * time.Millisecond) // nobody else asks for the time soon
			for _, s := range p.s {
				peek.Session(s).Clock.Skip(suspend)
			}
			if past {
				require.LessOrEqual(t, took(func() { <-done }), 250*time.Millisecond)
			} else {
				time.Sleep(lease / 3)
				require.NoError(t, l.Err())
			}
			_ = l.Unlock(background)
			time.Sleep(time.Second)
		}
	})
}

// Which of two goroutines calls a bare Unlock cannot be known: the one whose hold was lost, or the one that has the lock
// now. So what was lost goes first, and the late Unlock ends nothing of an owner, or of who locked through another value.
func TestLateUnlockOfALossEndsNothingOfOthers(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		l, owner := p.held(), p.s[0].NewContext(background)
		p.opens()
		lost(t, l)
		require.NoError(t, l.Lock(owner))
		require.ErrorIs(t, l.Unlock(background), relock.ErrForced)
		require.NoError(t, l.Err())
		require.NoError(t, l.Unlock(owner), "the late Unlock ended an owner's hold")
		require.ErrorIs(t, l.Unlock(background), relock.ErrNotHeld)

		require.NoError(t, l.Lock(background))
		p.opens()
		lost(t, l)
		other := p.held()
		require.ErrorIs(t, l.Unlock(owner), relock.ErrNotHeld)
		require.ErrorIs(t, l.Unlock(background), relock.ErrForced)
		require.ErrorIs(t, l.Unlock(background), relock.ErrNotHeld)
		require.NoError(t, other.Unlock(background))
	})
}

// An owner whose hold was lost gets ErrLost from Lock and TryLock of that lock, of either side of an RWMutex,
// until it has unlocked: it used to enter the side that was left again.
func TestOwnerThatLostOneSideMustUnlockFirst(t *testing.T) {
	alone(t, reader, func(t *testing.T, w *world) {
		s := w.process().s[0]
		short, long := s.RWMutex("a", relock.WithMaxHold(time.Second)), s.RWMutex("a")
		for gone, sides := range [][]relock.Locker{{short, long.RLocker()}, {long, short.RLocker()}} {
			ctx, left := s.NewContext(background), sides[1-gone]
			for _, side := range sides {
				require.NoError(t, side.Lock(ctx))
			}
			time.Sleep(2 * time.Second)
			require.ErrorIs(t, sides[gone].Err(), relock.ErrLost)
			require.NoError(t, left.Err())
			_, err := left.TryLock(ctx)
			require.ErrorIs(t, err, relock.ErrLost)
			require.ErrorIs(t, left.Lock(ctx), relock.ErrLost)
			require.ErrorIs(t, sides[gone].Unlock(ctx), relock.ErrLost)
			require.NoError(t, left.Unlock(ctx))
			time.Sleep(time.Second)
		}
	})
}
