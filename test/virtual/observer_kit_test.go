package virtual_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// observed are the kinds by which the types of locks report.
var observed = map[string]relock.Kind{
	"Mutex": relock.KindMutex, "FairMutex": relock.KindFair, "writer": relock.KindWrite, "reader": relock.KindRead, "Semaphore": relock.KindSemaphore,
	"Group": relock.KindGroup, "mixed Group": relock.KindGroup, "Redlock": relock.KindRedlock,
}

// An event is one of the events, with what it was told under.
type event struct {
	by any // value of callKey in its context
	of any // WaitEvent, AcquireEvent, ReleaseEvent or LostEvent
}

type callKey struct{}

// call returns a context by which events are recognized.
func call(name string) context.Context { return context.WithValue(background, callKey{}, name) }

// A recorder keeps the events, and what they add up to.
type recorder struct {
	renewals
	events []event
	held   int // Acquired less Released and Lost
	waits  int // Waiting less Acquired with Waited
}

func (r *recorder) note(ctx context.Context, of any, held, waits int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, event{ctx.Value(callKey{}), of})
	r.held += held
	r.waits += waits
}

func (r *recorder) Waiting(ctx context.Context, e relock.WaitEvent) { r.note(ctx, e, 0, 1) }

func (r *recorder) Acquired(ctx context.Context, e relock.AcquireEvent) {
	r.note(ctx, e, map[bool]int{true: 1}[e.Held], map[bool]int{true: -1}[e.Waited])
}

func (r *recorder) Released(ctx context.Context, e relock.ReleaseEvent) { r.note(ctx, e, -1, 0) }

func (r *recorder) Lost(e relock.LostEvent) { r.note(background, e, -1, 0) }

// take returns the events since the last take.
func (r *recorder) take() []event {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := r.events
	r.events = nil
	return events
}

// takeLosses returns the losses since the last take.
func (r *recorder) takeLosses() (losses []relock.LostEvent) {
	synctest.Wait() // until they are told
	for _, e := range r.take() {
		if e, is := e.of.(relock.LostEvent); is {
			losses = append(losses, e)
		}
	}
	return losses
}

// An observation is a process with a recorder, of a type of lock.
type observation struct {
	*world
	p     *process
	r     *recorder
	kind  relock.Kind
	title string // of events
}

// onEachObserved runs f in a bubble for each type of lock. At its end nothing may be held or
// waited for, by the events.
func onEachObserved(t *testing.T, f func(t *testing.T, o *observation)) {
	onEach(t, func(t *testing.T, w *world) {
		r := new(recorder)
		o := &observation{world: w, r: r, kind: observed[w.typ.name], title: strings.Join(w.typ.names, ", ")}
		o.p = w.process(relock.WithObserver(r), relock.WithTenure(time.Hour))
		r.take()
		f(t, o)
		time.Sleep(time.Second) // what goes on in the background
		require.Zero(t, r.held, "held, by the events")
		require.Zero(t, r.waits, "waiting, by the events")
	})
}

// wants compares the events since the last call with these.
func (o *observation) wants(want ...event) {
	o.t.Helper()
	require.Equal(o.t, want, o.r.take())
}

func (o *observation) waiting(by any) event {
	return event{by, relock.WaitEvent{Name: o.title, Kind: o.kind}}
}

// acquired is the event of a call that got l, or nothing, with what e says of it.
func (o *observation) acquired(by any, l relock.Locker, e relock.AcquireEvent) event {
	e.Name, e.Kind, e.Held = o.title, o.kind, l != nil
	if l, ok := l.(fenced); ok {
		e.Token = l.FencingToken()
		require.Positive(o.t, e.Token)
	}
	return event{by, e}
}

func (o *observation) released(by any, held time.Duration) event {
	return event{by, relock.ReleaseEvent{Name: o.title, Kind: o.kind, Held: held}}
}

// wantLost takes the events, which must be one loss with a cause of that text, and returns the cause.
func (o *observation) wantLost(held time.Duration, cause string) error {
	o.t.Helper()
	synctest.Wait()
	events := o.r.take()
	require.Len(o.t, events, 1)
	e, _ := events[0].of.(relock.LostEvent)
	require.EqualError(o.t, e.Cause, "relock: lock lost: "+cause)
	require.Equal(o.t, relock.LostEvent{Name: o.title, Kind: o.kind, Held: held, Cause: e.Cause}, e)
	return e.Cause
}
