package engine

import (
	"context"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/wire"
)

// Kind is the kind of a lock, or the side of one.
type Kind uint8

const (
	KindMutex Kind = iota + 1
	KindFair
	KindRead
	KindWrite
	KindGroup
	KindRedlock
)

var kinds = [...]Kind{wire.Plain: KindMutex, wire.Fair: KindFair, wire.Write: KindWrite, wire.Read: KindRead}

// Hooks report to an observer. None is called with a mutex locked.
type Hooks struct {
	Observer any // recognizes it, by ==
	Waiting  func(ctx context.Context, a *Acquired)
	Acquired func(ctx context.Context, a *Acquired)
	Released func(ctx context.Context, r Ended)
	Lost     func(l Ended)
	Renewed  func(holds int, took time.Duration, err error)
}

// Ended describes the end of a hold.
type Ended struct {
	Name string
	Kind Kind
	Held time.Duration
	Err  error // why a release is not confirmed, or why the hold was lost
}

// Audience is who is told of a lock: each observer once.
type Audience []*Hooks

// With returns the audience joined by that of e.
func (t Audience) With(e *Engine) Audience {
	for _, h := range e.audience {
		if !slices.ContainsFunc(t, func(other *Hooks) bool { return other.Observer == h.Observer }) {
			t = append(t[:len(t):len(t)], h)
		}
	}
	return t
}

// Acquired describes a call of Lock or TryLock: all of it at its end, name, kind and Contended at
// the start of a wait. A nil one reports nothing.
type Acquired struct {
	Name      string
	Kind      Kind
	Held      bool
	Contended bool          // the lock was found taken
	Waited    bool          // and Waiting was reported
	Handoff   bool          // passed on by a goroutine of this process, without asking Redis
	waits     bool          // Lock
	owned     bool          // by an owner
	Wait      time.Duration // from the call to its end
	Err       error
	Hold      Held // what it got; nil for a re-entry, which is not reported

	audience *Audience
	start    int64 // of the call; set where it is needed, since a re-entry costs hardly more than the look at the clock
}

// NewCall returns a call that starts now, nil if there is nobody to tell.
func (t *Audience) NewCall(name string, k Kind, waits bool, now int64) *Acquired {
	if *t == nil {
		return nil
	}
	return &Acquired{Name: name, Kind: k, audience: t, waits: waits, owned: true, start: now}
}

// begin notes when the call began, once.
func (a *Acquired) begin(e *Engine) {
	if a.start == 0 {
		a.start = e.Clock.Now()
	}
}

// Contend reports that a Lock has found the lock taken and waits, once.
func (a *Acquired) Contend(ctx context.Context) {
	if a == nil || !a.waits || a.Contended {
		return
	}
	a.Contended, a.Waited = true, true
	for _, h := range *a.audience {
		h.Waiting(ctx, a)
	}
	if a.owned { // a group gives its members an owner
		whole, _ := ctx.Value(wholeKey{}).(whole)
		whole.call.Contend(whole.ctx)
	}
}

// whole is a call that others make up, and its context.
type whole struct {
	call *Acquired
	ctx  context.Context
}

type wholeKey struct{}

// WithWhole returns a context for the calls that make up a: a waits when one of them does.
func WithWhole(ctx context.Context, a *Acquired) context.Context {
	if a == nil {
		return ctx
	}
	return context.WithValue(ctx, wholeKey{}, whole{a, ctx})
}

// End reports the end of the call.
func (a *Acquired) End(ctx context.Context, now int64, ok bool, err error) {
	if a == nil || ok && a.Hold == nil {
		return
	}
	a.Held, a.Err, a.Wait = ok, err, time.Duration(now-a.start)
	a.Contended = a.Contended || !ok && err == nil
	for _, h := range *a.audience {
		h.Acquired(ctx, a)
	}
	if !ok {
		return
	}
	if cause := a.Hold.Acquired(now); cause != nil {
		a.audience.lost(Ended{a.Name, a.Kind, 0, cause})
	}
}

func (t Audience) lost(l Ended) {
	for _, h := range t {
		h.Lost(l)
	}
}

// Lose reports that h is lost, l.Err says why, and then to those that depend on it.
func (t Audience) Lose(h Held, l Ended, now int64) {
	calls, after := h.LossReported(l.Err)
	t.lose(calls, l, now)
	for _, f := range after {
		(*f)(l.Err)
	}
}

func (t Audience) lose(calls []int64, l Ended, now int64) {
	for _, at := range calls {
		l.Held = time.Duration(now - at)
		t.lost(l)
	}
}

// Unlocked is the last unlock of a hold, which is reported when it is done. A nil one reports
// nothing.
type Unlocked struct {
	now   int64   // when it was called
	calls []int64 // when the calls of Lock returned that it ends
}

// NewUnlocked returns the last unlock of h, called now.
func NewUnlocked(h Held, now int64) *Unlocked { return &Unlocked{now, h.Released()} }

// Report reports the end of a hold by its unlock.
func (u *Unlocked) Report(ctx context.Context, t Audience, r Ended) {
	if u == nil {
		return
	}
	for _, at := range u.calls {
		r.Held = time.Duration(u.now - at)
		for _, h := range t {
			h.Released(ctx, r)
		}
	}
}

// Lost reports that the unlock has found the hold lost.
func (u *Unlocked) Lost(t Audience, l Ended) {
	if u != nil {
		t.lose(u.calls, l, u.now)
	}
}

// reportLost reports the loss of the holds on a lease.
func (e *Engine) reportLost(l *lease.Lease, cause error, holds []*lease.Hold) {
	now := e.Clock.Now()
	for _, h := range holds {
		e.audience.Lose(h, Ended{Name: e.nameOf(l.Keys.Name), Kind: kinds[l.Kind], Err: cause}, now)
	}
}
