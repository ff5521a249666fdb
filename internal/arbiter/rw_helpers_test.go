package arbiter_test

import (
	"sync/atomic"
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
)

// rwLease is what the tests of read-write locks get from Redis: certain until a time,
// and, of a writer, good for so many passes; of a reader, over at the latest at ends.
type rwLease struct {
	until  atomic.Int64
	ends   int64 // of one that is not shared
	passes int
	token  int64
}

const rwNever = int64(1) << 60

type (
	rwHandle = arbiter.Handle[*rwLease]
	rwHold   = arbiter.Hold[*rwLease]
)

// rwWorld is an arbiter whose clock and leases the test controls. When the test ends
// it must be empty: nothing may be remembered of a lock that nobody uses.
type rwWorld struct {
	*arbiter.Table[*rwLease]
	t     testing.TB
	clock atomic.Int64
}

func newRWWorld(t testing.TB) *rwWorld {
	t.Helper()
	w := &rwWorld{t: t}
	w.Table = arbiter.NewTable(arbiter.Rules[*rwLease]{
		Now:     w.clock.Load,
		Certain: func(l *rwLease, now int64) bool { return now < l.until.Load() },
		Ends:    func(l *rwLease) int64 { return l.ends },
		Pass: func(l *rwLease, _, _ int64) (int64, bool) {
			if l.passes == 0 {
				return 0, false
			}
			l.passes--
			l.token++
			return l.token, true
		},
	})
	t.Cleanup(func() {
		if n := w.Len(); n != 0 && !t.Failed() {
			t.Errorf("the arbiter still knows %d names", n)
		}
	})
	return w
}

func newRWLease(passes int) *rwLease {
	l := &rwLease{passes: passes}
	l.until.Store(rwNever)
	return l
}

// GrantWrite grants the write side to a call that asks.
func (w *rwWorld) GrantWrite(c *arbiter.Waiter[*rwLease], l *rwLease, token int64) *rwHold {
	h, used := w.Grant(c, l, token)
	if !used {
		w.t.Fatal("the lease was not wanted")
	}
	return h
}

func (w *rwWorld) handle() *rwHandle {
	h := w.Handle("a")
	return &h
}

// rwCall is one call of RLock or Lock, taken step by step.
type rwCall struct {
	*arbiter.Waiter[*rwLease]
	w       *rwWorld
	verdict arbiter.Verdict
}

func (w *rwWorld) enter(via *rwHandle, o *arbiter.Owner, side arbiter.Side, passable, wait bool) *rwCall {
	c := &rwCall{Waiter: w.Waiter(via, o, passable), w: w}
	c.verdict = w.Enter(c.Waiter, side, wait)
	return c
}

func (w *rwWorld) rlock(via *rwHandle, o *arbiter.Owner) *rwCall {
	return w.enter(via, o, arbiter.Read, true, true)
}

func (w *rwWorld) tryRLock(via *rwHandle, o *arbiter.Owner) *rwCall {
	return w.enter(via, o, arbiter.Read, true, false)
}

// fixedRLock is RLock of a value with a fixed lease.
func (w *rwWorld) fixedRLock(via *rwHandle, o *arbiter.Owner) *rwCall {
	return w.enter(via, o, arbiter.Read, false, true)
}

func (w *rwWorld) lock(via *rwHandle, o *arbiter.Owner) *rwCall {
	return w.enter(via, o, arbiter.Write, true, true)
}

func (w *rwWorld) tryLock(via *rwHandle, o *arbiter.Owner) *rwCall {
	return w.enter(via, o, arbiter.Write, true, false)
}

// must checks the answer to Enter.
func (c *rwCall) must(v arbiter.Verdict) *rwCall {
	c.w.t.Helper()
	if c.verdict != v {
		c.w.t.Fatalf("Enter = %d, want %d", c.verdict, v)
	}
	return c
}

// mustWait checks that the call has got no signal.
func (c *rwCall) mustWait() *rwCall {
	c.w.t.Helper()
	select {
	case <-c.C:
		c.w.t.Fatal("a call was signalled that has to wait")
	default:
	}
	return c
}

// answer takes the signal of a call, which must be there.
func (c *rwCall) answer() (*rwHold, bool) {
	c.w.t.Helper()
	select {
	case <-c.C:
	default:
		c.w.t.Fatal("a call was not signalled")
	}
	return c.w.Answer(c.Waiter)
}

func (c *rwCall) mustAsk() *rwCall {
	c.w.t.Helper()
	if h, ask := c.answer(); h != nil || !ask {
		c.w.t.Fatalf("hold %v, ask %t; it should ask Redis", h, ask)
	}
	return c
}

func (c *rwCall) mustHold() *rwHold {
	c.w.t.Helper()
	h, _ := c.answer()
	if h == nil {
		c.w.t.Fatal("the call has no hold")
	}
	return h
}

func (c *rwCall) mustBeRefused() {
	c.w.t.Helper()
	if h, ask := c.answer(); h != nil || ask {
		c.w.t.Fatalf("hold %v, ask %t; it should be refused", h, ask)
	}
	c.w.Free(c.Waiter)
}

// standing checks whether the call is to confirm the shared lease.
func (c *rwCall) standing(confirm *rwLease) *rwCall {
	c.w.t.Helper()
	h, st := c.w.Standing(c.Waiter)
	if h != nil || st.Confirm != (confirm != nil) || st.Read != confirm {
		c.w.t.Fatalf("hold %v, standing %+v, want to confirm %v", h, st, confirm)
	}
	return c
}

// reads grants the call a new read lease, which must be used.
func (c *rwCall) reads(ride int64) *rwHold {
	c.w.t.Helper()
	h, used := c.w.GrantRead(c.Waiter, newRWLease(0), true, ride)
	if h == nil || !used {
		c.w.t.Fatalf("GrantRead = %v, %t", h, used)
	}
	return h
}

// joins tells the call that Redis has confirmed a lease; it must get a hold on it.
func (c *rwCall) joins(l *rwLease, ride int64) *rwHold {
	c.w.t.Helper()
	h, used := c.w.GrantRead(c.Waiter, l, false, ride)
	if h == nil || used || h.Lease != l {
		c.w.t.Fatalf("GrantRead = %v, %t", h, used)
	}
	return h
}

// writes grants the call the write side.
func (c *rwCall) writes(passes int) *rwHold {
	return c.w.GrantWrite(c.Waiter, newRWLease(passes), 1)
}

// exit unlocks and checks what became of it.
func (w *rwWorld) exit(via *rwHandle, o *arbiter.Owner, side arbiter.Side, want arbiter.Outcome) *rwHold {
	w.t.Helper()
	h, got, _ := w.Exit(via, o, side)
	if got != want || (h == nil) != (got == arbiter.NotHeld) {
		w.t.Fatalf("Exit = %d with hold %v, want %d", got, h, want)
	}
	return h
}

// mustBe checks the state of a hold, and that its channel agrees.
func (w *rwWorld) mustBe(h *rwHold, s arbiter.State) {
	w.t.Helper()
	if h.State() != s {
		w.t.Fatalf("hold is %d, want %d", h.State(), s)
	}
	select {
	case <-h.Done():
		if s == arbiter.Live {
			w.t.Fatal("Done is closed and the hold is live")
		}
	default:
		if s != arbiter.Live {
			w.t.Fatal("the hold has ended and Done is open")
		}
	}
}
