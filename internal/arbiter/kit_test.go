package arbiter_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lease is what the fake Redis of these tests gives: certain until a time, and good for so many
// passes.
type lease struct {
	until  atomic.Int64
	passes int
	token  int64
}

const never = int64(1) << 60

func newLease(token int64, passes int) *lease {
	l := &lease{token: token, passes: passes}
	l.until.Store(never)
	return l
}

type (
	handle   = arbiter.Handle[*lease]
	hold     = arbiter.Hold[*lease]
	waiter   = arbiter.Waiter[*lease]
	standing = arbiter.Standing[*lease]
	exit     = arbiter.Exit[*lease]
	owner    = arbiter.Owner
)

const (
	write = arbiter.Write
	read  = arbiter.Read
)

var (
	background = context.Background()
	errLost    = errors.New("lost")
	errExpired = errors.New("expired")
	errGone    = errors.New("gone")
)

// world is a table whose clock and leases the test controls. When the test ends the table must
// be empty: nothing may be remembered of a lock that nobody uses.
type world struct {
	*arbiter.Table[*lease]
	t     testing.TB
	now   atomic.Int64
	token atomic.Int64 // last one given
}

func newWorld(t testing.TB) *world {
	w := &world{t: t}
	w.Table = arbiter.NewTable(arbiter.Rules[*lease]{
		Now:      w.now.Load,
		Certain:  func(l *lease, now int64) bool { return now < l.until.Load() },
		Expire:   func(name string, l *lease) { w.Lose(name, l, errExpired) },
		Gone:     func(name string, l *lease) { w.Lose(name, l, errGone) },
		Outlasts: func(l, other *lease) bool { return l.until.Load() > other.until.Load() },
		Pass: func(l *lease, class, _ int64) (int64, bool) {
			if l.passes == 0 || class != 0 {
				return 0, false
			}
			l.passes--
			l.token++
			return l.token, true
		},
	})
	return w
}

// empty is newWorld of a test that leaves nothing behind.
func empty(t testing.TB) *world {
	w := newWorld(t)
	t.Cleanup(func() { require.Zero(t, w.Len(), "names that the table still knows") })
	return w
}

// lease returns a fresh lease with the next token.
func (w *world) lease(passes int) *lease { return newLease(w.token.Add(1000), passes) }

func (w *world) handle(side arbiter.Side) *handle {
	v := new(handle)
	w.Init(v, "a", side)
	return v
}

// call is one call of Lock, taken step by step.
type call struct {
	*waiter
	w       *world
	verdict arbiter.Verdict
}

// ownerOf is o, or that of the handle if o is nil.
func ownerOf(via *handle, o *owner) *owner {
	if o == nil {
		return via.OwnerOf(background)
	}
	return o
}

// enter enters as a Lock that waits does.
func (w *world) enter(via *handle, o *owner, passable bool) *call {
	c := &call{waiter: w.Waiter(via, ownerOf(via, o), passable, 0), w: w}
	c.verdict = w.Enter(c.waiter, true)
	return c
}

// lock enters with the right to take over a lease or to share one.
func (w *world) lock(via *handle, o *owner) *call { return w.enter(via, o, true) }

// queued enters behind a holder.
func (w *world) queued(via *handle, passable bool, class int64) *call {
	c := &call{waiter: w.Waiter(via, ownerOf(via, nil), passable, class), w: w}
	c.verdict = w.Enter(c.waiter, true)
	return c.is(arbiter.Queued)
}

// is checks the answer to Enter.
func (c *call) is(v arbiter.Verdict) *call {
	c.w.t.Helper()
	require.Equal(c.w.t, verdicts[v], verdicts[c.verdict])
	return c
}

// told takes the signal of a call, if there is one.
func (c *call) told() bool {
	select {
	case <-c.C:
		return true
	default:
		return false
	}
}

// asks checks that the call was told to ask Redis.
func (c *call) asks() *call {
	c.w.t.Helper()
	require.True(c.w.t, c.told(), "a call was not signalled")
	require.Nil(c.w.t, c.w.Answer(c.waiter))
	return c
}

// grant gives the contender an exclusive lease that is good for so many passes.
func (c *call) grant(passes int) *hold {
	c.w.t.Helper()
	l := c.w.lease(passes)
	h, used := c.w.Grant(c.waiter, l, l.token)
	require.True(c.w.t, used)
	return h
}

// reads gives the contender a fresh read lease, certain until a time, which it must use.
func (c *call) reads(until, joinUntil int64) *hold {
	c.w.t.Helper()
	l := c.w.lease(0)
	l.until.Store(until)
	h, spare := c.w.GrantRead(c.waiter, l, true, joinUntil)
	require.NotNil(c.w.t, h)
	require.Nil(c.w.t, spare)
	return h
}

// quits ends the call, which must have got nothing.
func (c *call) quits() {
	c.w.t.Helper()
	require.Nil(c.w.t, c.w.Quit(c.waiter))
	c.w.Free(c.waiter)
}

// take locks what is free.
func (w *world) take(via *handle, o *owner, passes int) *hold {
	w.t.Helper()
	return w.lock(via, o).is(arbiter.Ask).grant(passes)
}

// exits unlocks and checks what that amounts to.
func (w *world) exits(via *handle, o *owner, want arbiter.Outcome) exit {
	w.t.Helper()
	x := w.Exit(via, o, errExpired)
	require.Equal(w.t, outcomes[want], outcomes[x.Outcome])
	require.Equal(w.t, want == arbiter.NotHeld, x.Hold == nil)
	return x
}

// leaves unlocks for the last time and completes the release.
func (w *world) leaves(via *handle, o *owner) {
	w.t.Helper()
	x := w.exits(via, o, arbiter.Release)
	w.Released(via.Name(), x.Lease, nil, 0)
}

// loses loses what the hold rests on.
func (w *world) loses(h *hold) {
	w.t.Helper()
	require.Contains(w.t, w.Lose("a", h.Lease(), errLost), h)
	require.Equal(w.t, arbiter.Lost, h.State())
	require.Equal(w.t, errLost, h.Cause())
}

var verdicts = map[arbiter.Verdict]string{
	arbiter.Entered: "Entered", arbiter.Joined: "Joined", arbiter.Ask: "Ask", arbiter.Queued: "Queued", arbiter.Busy: "Busy",
	arbiter.Upgrade: "Upgrade", arbiter.UnlockFirst: "UnlockFirst",
}

var outcomes = map[arbiter.Outcome]string{
	arbiter.NotHeld: "NotHeld", arbiter.WasLost: "WasLost", arbiter.Kept: "Kept", arbiter.Passed: "Passed",
	arbiter.Release: "Release", arbiter.Expired: "Expired", arbiter.Left: "Left",
}
