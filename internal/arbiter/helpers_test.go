package arbiter_test

import (
	"sync/atomic"
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
)

// lease is what the fake Redis of these tests gives: certain until a time, and good
// for so many passes.
type lease struct {
	until  atomic.Int64
	passes int
	token  int64
}

const never = int64(1) << 60

type (
	handle = arbiter.Handle[*lease]
	hold   = arbiter.Hold[*lease]
	owner  = arbiter.Owner
)

// world is a table whose clock and leases the test controls. When the test ends the
// table must be empty: nothing may be remembered of a lock that nobody uses.
type world struct {
	*arbiter.Table[*lease]
	t     testing.TB
	now   atomic.Int64
	token int64 // last one given by grant
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t}
	w.Table = arbiter.NewTable(arbiter.Rules[*lease]{
		Now:     w.now.Load,
		Certain: func(l *lease, now int64) bool { return now < l.until.Load() },
		Pass: func(l *lease, _, _ int64) (int64, bool) {
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
			t.Errorf("the table still knows %d names", n)
		}
	})
	return w
}

// The exclusive side alone.

func (w *world) Enter(c *arbiter.Waiter[*lease], wait bool) arbiter.Verdict {
	return w.Table.Enter(c, arbiter.Write, wait)
}

func (w *world) Exit(via *handle, o *owner) (*hold, arbiter.Outcome) {
	h, out, _ := w.Table.Exit(via, o, arbiter.Write)
	return h, out
}

func (w *world) Return(via *handle, h *hold) (*hold, arbiter.Outcome) {
	ended, out, _ := w.Table.Return(via, h)
	return ended, out
}

// Lose returns the hold that was lost.
func (w *world) Lose(name string, l *lease) *hold {
	h := w.Lookup(name)
	if len(w.Table.Lose(name, l)) == 0 {
		return nil
	}
	return h
}

// Role returns the hold that a call was granted, nil if it must ask Redis.
func (w *world) Role(c *arbiter.Waiter[*lease]) *hold {
	h, ask := w.Answer(c)
	if ask == (h != nil) {
		w.t.Fatalf("Answer = %v, %t", h, ask)
	}
	return h
}

func (w *world) Newest(via *handle, o *owner) *hold { return w.Table.Newest(via, o, arbiter.Write) }

func (w *world) Waiting(name string) int { return w.Table.Waiting(name, arbiter.Write) }

func (w *world) handle(name string) *handle {
	h := w.Handle(name)
	return &h
}

// call is one call of Lock, taken step by step.
type call struct {
	*arbiter.Waiter[*lease]
	w       *world
	verdict arbiter.Verdict
}

// call enters as Lock does, with the right to take over a hold.
func (w *world) call(via *handle, o *owner) *call { return w.enter(via, o, true, true) }

// fixed enters as Lock of a lock with a fixed lease does: it cannot take over a hold.
func (w *world) fixed(via *handle, o *owner) *call { return w.enter(via, o, false, true) }

// try enters as TryLock does.
func (w *world) try(via *handle, o *owner) *call { return w.enter(via, o, true, false) }

func (w *world) enter(via *handle, o *owner, passable, wait bool) *call {
	c := &call{Waiter: w.Waiter(via, o, passable), w: w}
	c.verdict = w.Enter(c.Waiter, wait)
	return c
}

// must checks the answer to Enter.
func (c *call) must(v arbiter.Verdict) *call {
	c.w.t.Helper()
	if c.verdict != v {
		c.w.t.Fatalf("Enter = %v, want %v", verdicts[c.verdict], verdicts[v])
	}
	return c
}

// fired takes the signal of a waiter, if there is one.
func (c *call) fired() bool {
	select {
	case <-c.C:
		return true
	default:
		return false
	}
}

// mustWait checks that the call has got no signal.
func (c *call) mustWait() {
	c.w.t.Helper()
	if c.fired() {
		c.w.t.Fatal("a call was signalled that has to wait")
	}
}

// mustAsk checks that the call has become the asker.
func (c *call) mustAsk() *call {
	c.w.t.Helper()
	if !c.fired() {
		c.w.t.Fatal("the call was not signalled; it should ask Redis")
	}
	if c.w.Role(c.Waiter) != nil {
		c.w.t.Fatal("the call has a hold; it should ask Redis")
	}
	return c
}

// mustHold checks that a waiting call was granted a hold, and returns it.
func (c *call) mustHold() *hold {
	c.w.t.Helper()
	if !c.fired() {
		c.w.t.Fatal("the call was not signalled; it should have the lock")
	}
	h := c.w.Role(c.Waiter)
	if h == nil {
		c.w.t.Fatal("the call is the asker; it should have the lock")
	}
	return h
}

// grant gives the asker a lease good for so many passes.
func (c *call) grant(passes int) *hold {
	c.w.token += 1000
	l := &lease{passes: passes, token: c.w.token}
	l.until.Store(never)
	h, wanted := c.w.Grant(c.Waiter, l, l.token)
	if !wanted {
		c.w.t.Fatal("the asker's lease was not wanted")
	}
	return h
}

// quit ends the call, which must have got nothing.
func (c *call) quit() {
	c.w.t.Helper()
	if c.w.Quit(c.Waiter) != nil {
		c.w.t.Fatal("a call that gave up has a hold")
	}
}

// take locks a name that is free.
func (w *world) take(via *handle, o *owner, passes int) *hold {
	w.t.Helper()
	return w.call(via, o).must(arbiter.Ask).grant(passes)
}

// exit unlocks and checks what became of it; a release is completed if done is set.
func (w *world) exit(via *handle, o *owner, want arbiter.Outcome) *hold {
	w.t.Helper()
	h, got := w.Exit(via, o)
	if got != want {
		w.t.Fatalf("Exit = %v, want %v", outcomes[got], outcomes[want])
	}
	if (h == nil) != (got == arbiter.NotHeld) {
		w.t.Fatalf("Exit = %v with hold %v", outcomes[got], h)
	}
	return h
}

// leave unlocks the last time and completes the release.
func (w *world) leave(via *handle, o *owner) {
	w.t.Helper()
	h := w.exit(via, o, arbiter.Release)
	w.Released(via.Name(), h.Lease)
}

// giveBack returns a lock of h and checks what became of it.
func (w *world) giveBack(via *handle, h *hold, want arbiter.Outcome) *hold {
	w.t.Helper()
	ended, got := w.Return(via, h)
	if got != want || (ended == nil) != (got == arbiter.NotHeld) {
		w.t.Fatalf("Return = %v with hold %v, want %v", outcomes[got], ended, outcomes[want])
	}
	return ended
}

// mustBe checks the state of a hold, and that its channel agrees.
func (w *world) mustBe(h *hold, s arbiter.State) {
	w.t.Helper()
	if h.State() != s {
		w.t.Fatalf("hold is %v, want %v", states[h.State()], states[s])
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

func (w *world) mustWaiting(name string, n int) {
	w.t.Helper()
	if got := w.Waiting(name); got != n {
		w.t.Fatalf("%d calls wait, want %d", got, n)
	}
}

var (
	verdicts = map[arbiter.Verdict]string{
		arbiter.Entered: "Entered", arbiter.Ask: "Ask", arbiter.Queued: "Queued", arbiter.Busy: "Busy",
		arbiter.UnlockFirst: "UnlockFirst",
	}
	outcomes = map[arbiter.Outcome]string{
		arbiter.NotHeld: "NotHeld", arbiter.WasLost: "WasLost", arbiter.Kept: "Kept",
		arbiter.Passed: "Passed", arbiter.Release: "Release", arbiter.Expired: "Expired",
	}
	states = map[arbiter.State]string{
		arbiter.Live: "Live", arbiter.Ended: "Ended", arbiter.Lost: "Lost",
	}
)
