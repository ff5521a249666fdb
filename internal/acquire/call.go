package acquire

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/event"
	"github.com/relock-go/relock/internal/local"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/transport"
)

// A Call is one call of Lock or TryLock of what the user locks. A Group and a Redlock lock their
// members on behalf of one call, so only that is reported.
type Call struct {
	Ctx  context.Context // the caller's, for observers
	Op   string          // for errors
	Try  bool            // the caller's call is a TryLock
	Wait bool            // Lock, not TryLock
	Due  bool            // an Unlock of the lock is to end what it gets

	observer event.Observer // nil: nobody is told
	start    int64
	told     event.Acquire
	hold     Held             // what it got; nil for a re-entry, which is not reported
	crowd    *local.Crowd     // of readers that share a hold
	taken    bool             // the lock was found taken, by this call or just before it
	batch    *transport.Batch // in which its first request is sent; nil: alone
	whole    *Call            // that it is a part of
	found    func()           // called when a TryLock that waits finds the lock taken; nil: of another call
}

// Now is the time of calls: those of a group are of several nodes.
var Now = clock.New().Now

// NewCall returns a call that starts now.
func NewCall(ctx context.Context, o event.Observer, name string, k event.Kind, op string, wait bool) Call {
	if !wait {
		op = "try " + op
	}
	return Call{
		Ctx: ctx, Op: op, Try: !wait, Wait: wait, observer: o, start: Now(), told: event.Acquire{Name: name, Kind: k},
	}
}

// ObserverOf returns the observers of nodes, each once (by ==); nil if there is none.
func ObserverOf(nodes ...*Node) event.Observer {
	var all event.All
	for _, n := range nodes {
		if o := n.Config.Observer; o != nil && !slices.Contains(all, o) {
			all = append(all, o)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// Got records the hold that the call got, perhaps from another goroutine of this process.
func (c *Call) Got(h Held, local bool) { c.hold, c.told.Local = h, local }

// Kept records that the hold that the call got was kept.
func (c *Call) Kept() { c.told.Kept = true }

// Entered records the hold that the call has entered again, if it is more than a re-entry for
// observers: it was reported to wait.
func (c *Call) Entered(h Held) {
	if c.told.Waited {
		c.Got(h, true)
	}
}

// Contend records that the call has found the lock taken and waits, and reports that of a Lock,
// once.
func (c *Call) Contend() {
	if !c.Wait || c.told.Waited {
		return
	}
	if c.found != nil { // a TryLock: that is not reported
		if !c.told.Contended {
			c.told.Contended = true
			c.found()
		}
		return
	}
	c.told.Contended, c.told.Waited = true, true
	if c.whole != nil {
		c.whole.Contend()
	} else if c.observer != nil {
		c.observer.Waiting(c.Ctx, event.Wait{Name: c.told.Name, Kind: c.told.Kind})
	}
}

// Waited returns how long the call takes already.
func (c *Call) Waited() time.Duration { return time.Duration(Now() - c.start) }

// End reports the end of the call. If an observer panics the caller gets no hold to unlock: the
// call's is given back.
func (c *Call) End(held bool, err error, giveBack func(h Held, due bool)) {
	if c.observer == nil || held && c.hold == nil {
		return
	}
	told := !held
	defer func() {
		if !told {
			giveBack(c.hold, c.Due)
		}
	}()
	now := Now()
	e := c.told
	e.Held, e.Err, e.Wait = held, err, time.Duration(now-c.start)
	e.Contended = e.Contended || !held && err == nil
	if held {
		e.Token = c.hold.Fence()
	}
	c.observer.Acquired(c.Ctx, e)
	if !held {
		return
	}
	if cause := c.hold.Reported(now); cause != nil {
		c.observer.Lost(event.Loss{Name: e.Name, Kind: e.Kind, Cause: cause})
	}
	told = true
}

// ReportLoss reports the loss of a hold.
func ReportLoss(o event.Observer, h Held, name string, k event.Kind) {
	if o == nil {
		return
	}
	for _, at := range h.Over(true) {
		o.Lost(event.Loss{Name: name, Kind: k, Held: time.Duration(Now() - at), Cause: h.Cause()})
	}
}

// ReportUnlock reports the end of an unlock of h, which was called at start and has ended all calls
// of Lock, or that of one of several readers. If err is ErrLost the unlock has found the hold lost.
func ReportUnlock(
	ctx context.Context, o event.Observer, h Held, all bool, name string, k event.Kind, start int64, err error,
) {
	if o == nil {
		return
	}
	for _, at := range h.Over(all) {
		if held := time.Duration(start - at); errors.Is(err, lockerr.ErrLost) {
			o.Lost(event.Loss{Name: name, Kind: k, Held: held, Cause: lockerr.CauseOf(err, lockerr.ErrGone)})
		} else {
			o.Released(ctx, event.Release{Name: name, Kind: k, Held: held, Err: err})
		}
	}
}

// Part returns a call for a member of what c locks, of which nobody is told but that c waits.
func (c *Call) Part(wait bool) *Call {
	part := *c
	part.Wait, part.Due, part.whole = wait, false, c
	return &part
}

// With has the call send its first request in a batch; Alone must follow.
func (c *Call) With(b *transport.Batch) *Call {
	c.batch = b
	return c
}

// Alone has the call send nothing in a batch any more.
func (c *Call) Alone() {
	if c.batch != nil {
		c.batch.Skip()
		c.batch = nil
	}
}

// FoundTaken reports whether the call has found the lock taken.
func (c *Call) FoundTaken() bool { return c.taken }

// After returns c for a call that follows one which has found the lock taken, if taken.
func (c *Call) After(taken bool) *Call {
	c.taken = taken
	return c
}
