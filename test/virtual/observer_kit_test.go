package virtual_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// observed is what events of the types of locks have in common, and how the types differ.
var observed = map[string]struct {
	kind   relock.Kind
	title  string // of events
	token  bool
	passed bool // handed to another goroutine of the process
}{
	"Mutex":       {relock.KindMutex, "a", true, true},
	"FairMutex":   {relock.KindFair, "a", true, false},
	"writer":      {relock.KindWrite, "a", true, true},
	"reader":      {relock.KindRead, "a", false, false},
	"Group":       {relock.KindGroup, "a, b", false, false},
	"mixed Group": {relock.KindGroup, "a, b", false, false},
	"Redlock":     {relock.KindRedlock, "a", false, true},
}

// An event is one of the events, with what it was told under.
type event struct {
	by any // value of callKey in its context
	of any // WaitEvent, AcquireEvent, ReleaseEvent or LostEvent
}

type callKey struct{}

// call returns a context by which events are recognized.
func call(name string) context.Context { return context.WithValue(background, callKey{}, name) }

// A recorder keeps the events of one kind, and what all events add up to.
type recorder struct {
	mu     sync.Mutex
	kind   relock.Kind
	events []event
	held   map[relock.Kind]int // Acquired less Released and Lost
	waits  map[relock.Kind]int // Waiting less Acquired with Waited
	rounds []relock.RenewEvent
}

func newRecorder(k relock.Kind) *recorder {
	return &recorder{kind: k, held: make(map[relock.Kind]int), waits: make(map[relock.Kind]int)}
}

func (r *recorder) note(ctx context.Context, k relock.Kind, of any, held, waits int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k == r.kind {
		r.events = append(r.events, event{ctx.Value(callKey{}), of})
	}
	r.held[k] += held
	r.waits[k] += waits
}

func (r *recorder) Waiting(ctx context.Context, e relock.WaitEvent) { r.note(ctx, e.Kind, e, 0, 1) }

func (r *recorder) Acquired(ctx context.Context, e relock.AcquireEvent) {
	var held, waits int
	if e.Held {
		held = 1
	}
	if e.Waited {
		waits = -1
	}
	r.note(ctx, e.Kind, e, held, waits)
}

func (r *recorder) Released(ctx context.Context, e relock.ReleaseEvent) {
	r.note(ctx, e.Kind, e, -1, 0)
}

func (r *recorder) Lost(e relock.LostEvent) { r.note(background, e.Kind, e, -1, 0) }

func (r *recorder) Renewed(e relock.RenewEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rounds = append(r.rounds, e)
}

// take returns the events since the last take.
func (r *recorder) take() []event {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := r.events
	r.events = nil
	return events
}

// takeRounds returns the renewals since the last call.
func (r *recorder) takeRounds() []relock.RenewEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	rounds := r.rounds
	r.rounds = nil
	return rounds
}

// An observation is a process with a recorder, of a type of lock.
type observation struct {
	*world
	p     *process
	r     *recorder
	kind  relock.Kind
	title string
}

// onEachObserved runs f in a bubble for each type of lock. At its end nothing may be held or
// waited for, by the events of any kind.
func onEachObserved(t *testing.T, f func(t *testing.T, o *observation)) {
	onEach(t, func(t *testing.T, w *world) {
		like := observed[w.typ.name]
		r := newRecorder(like.kind)
		o := &observation{world: w, r: r, kind: like.kind, title: like.title}
		o.p = w.process(relock.WithObserver(r), relock.WithTenure(time.Hour))
		r.take()
		f(t, o)
		time.Sleep(time.Second) // what goes on in the background
		for kind, n := range r.held {
			require.Zero(t, n, "held, by the events of kind %s", kind)
			require.Zero(t, r.waits[kind], "waiting, by the events of kind %s", kind)
		}
		require.LessOrEqual(t, len(r.held), 1, "the kinds that report: %v", r.held)
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

// acquired is the event of a Lock without contention that took no time, changed by change.
func (o *observation) acquired(by any, l relock.Locker, change func(e *relock.AcquireEvent)) event {
	e := relock.AcquireEvent{Name: o.title, Kind: o.kind, Held: true}
	if change != nil {
		change(&e)
	}
	if e.Held && observed[o.typ.name].token {
		e.Token = l.(interface{ FencingToken() int64 }).FencingToken()
		require.Positive(o.t, e.Token)
	}
	return event{by, e}
}

func (o *observation) released(by any, held time.Duration) event {
	return event{by, relock.ReleaseEvent{Name: o.title, Kind: o.kind, Held: held}}
}

// wantLost takes the events, which must be one loss with a cause of that text.
func (o *observation) wantLost(held time.Duration, cause string) {
	o.t.Helper()
	events := o.r.take()
	require.Len(o.t, events, 1)
	e, _ := events[0].of.(relock.LostEvent)
	require.EqualError(o.t, e.Cause, "relock: lock lost: "+cause)
	e.Cause = nil
	require.Equal(o.t, relock.LostEvent{Name: o.title, Kind: o.kind, Held: held}, e)
}

// taken returns a lock of another process that excludes o's, held.
func (o *observation) taken() relock.Locker {
	o.t.Helper()
	other := o.process()
	l := other.lock()
	if !o.exclusive() {
		l = other.s[0].RWMutex("a")
	}
	require.NoError(o.t, l.Lock(background))
	return l
}
