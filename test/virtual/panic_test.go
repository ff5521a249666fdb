package virtual_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
)

// panicky panics in one of its methods, while it is armed.
type panicky struct {
	relock.NopObserver
	in    string
	armed bool
}

func (o *panicky) tell(in string) {
	if o.armed && o.in == in {
		panic(in)
	}
}

func (o *panicky) Waiting(context.Context, relock.WaitEvent)     { o.tell("Waiting") }
func (o *panicky) Acquired(context.Context, relock.AcquireEvent) { o.tell("Acquired") }
func (o *panicky) Released(context.Context, relock.ReleaseEvent) { o.tell("Released") }
func (o *panicky) Lost(relock.LostEvent)                         { o.tell("Lost") }

// panicOf returns what f panics with, nil if it does not.
func panicOf(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}

// calls are the ways to lock, each with a context of its own kind.
var calls = map[string]func(p *process, l relock.Locker){
	"Lock":             func(_ *process, l relock.Locker) { _ = l.Lock(background) },
	"Lock of an owner": func(p *process, l relock.Locker) { _ = l.Lock(p.s[0].NewContext(background)) },
	"TryLock":          func(_ *process, l relock.Locker) { _, _ = l.TryLock(background) },
	"Do": func(_ *process, l relock.Locker) {
		_ = relock.Do(background, l, func(context.Context) error { return nil })
	},
}

// A panic of an observer reaches the caller, and the caller, who does not know of a hold, has none: it stayed held and
// renewed for good. Or the next Lock waited for ever, for a call that was gone.
func TestObserverThatPanicsLeavesNothingHeld(t *testing.T) {
	for _, in := range []string{"Acquired", "Waiting", "Released"} {
		for what, call := range calls {
			if in == "Waiting" && what == "TryLock" || in == "Released" && what != "Do" {
				continue
			}
			t.Run(in+" of "+what, func(t *testing.T) {
				onEach(t, func(t *testing.T, w *world) {
					o := &panicky{in: in}
					p, other := w.process(relock.WithObserver(o)), w.process()
					l, holder := p.lock(), other.opposite()
					if in == "Waiting" {
						require.NoError(t, holder.Lock(background))
					}
					o.armed = true
					require.Equal(t, in, panicOf(func() { call(p, l) }))
					o.armed = false
					if in == "Waiting" {
						require.NoError(t, holder.Unlock(background))
					}
					synctest.Wait()
					time.Sleep(time.Second)
					require.True(t, w.free(), "it is in Redis")
					require.NoError(t, <-lockAndUnlock(other.lock()))
					require.NoError(t, <-lockAndUnlock(l))
					require.NoError(t, <-lockAndUnlock(p.lock()))
				})
			})
		}
	}
}

// The call that panics may be behind another goroutine of its process, which passes the lock on.
func TestObserverThatPanicsLeavesTheQueue(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		o := &panicky{in: "Waiting"}
		p := w.process(relock.WithObserver(o))
		holder := p.opposite()
		require.NoError(t, holder.Lock(background))
		o.armed = true
		require.Equal(t, "Waiting", panicOf(func() { _ = p.lock().Lock(background) }))
		o.armed = false
		next := lockAndUnlock(p.lock())
		time.Sleep(time.Second)
		require.NoError(t, holder.Unlock(background))
		require.NoError(t, <-next)
	})
}

// The other members of a group are given back, also those that it keeps while it waits.
func TestObserverThatPanicsLeavesNoMembers(t *testing.T) {
	for _, typ := range []*lockType{&lockTypes[4], &lockTypes[5]} {
		t.Run(typ.name, func(t *testing.T) {
			alone(t, typ, func(t *testing.T, w *world) {
				o := &panicky{in: "Waiting"}
				p, other := w.process(relock.WithObserver(o)), w.process()
				member := map[string]relock.Locker{"Group": other.s[0].Mutex("b"), "mixed Group": other.s[0].RWMutex("b")}[typ.name]
				require.NoError(t, member.Lock(background))
				o.armed = true
				require.Equal(t, "Waiting", panicOf(func() { _ = p.lock().Lock(background) }))
				synctest.Wait()
				require.False(t, w.has("a"))
				require.NoError(t, member.Unlock(background))
				time.Sleep(time.Second)
				require.True(t, w.free())
			})
		})
	}
}

// A loss that the caller's own Unlock or Lock finds: the lock is not held, and the handle goes on.
func TestObserverThatPanicsAtALoss(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		o := &panicky{in: "Lost"}
		p := w.process(relock.WithObserver(o))
		l := p.held()
		w.do("FLUSHALL")
		o.armed = true
		require.Equal(t, "Lost", panicOf(func() { _ = l.Unlock(background) }))
		o.armed = false
		require.NoError(t, <-lockAndUnlock(l))
		time.Sleep(time.Second)
		require.True(t, w.free())
	})
}

// A ticket that its holder never got, and a lock that was adopted for nobody, are free.
func TestObserverThatPanicsAtAHandoff(t *testing.T) {
	alone(t, &lockTypes[0], func(t *testing.T, w *world) {
		o := &panicky{in: "Released"}
		p, other := w.process(relock.WithObserver(o)), w.process()
		m, err := p.s[0].Mutex("a").Acquire(background)
		require.NoError(t, err)
		o.armed = true
		require.Equal(t, "Released", panicOf(func() { _, _ = m.Handoff(background, time.Hour) }))
		time.Sleep(time.Second)
		require.True(t, w.free(), "the ticket")

		m2, err := other.s[0].Mutex("a").Acquire(background)
		require.NoError(t, err)
		ticket, err := m2.Handoff(background, time.Hour)
		require.NoError(t, err)
		o.in = "Acquired"
		require.Equal(t, "Acquired", panicOf(func() { _, _ = p.s[0].Adopt(background, ticket) }))
		time.Sleep(time.Second)
		require.True(t, w.free(), "what was adopted")
	})
}

// The session of an observer that panics closes as any other.
func TestObserverThatPanicsDoesNotHoldUpShutdown(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		o := &panicky{in: "Acquired", armed: true}
		p := w.process(relock.WithObserver(&panicky{}))
		q := &process{w: w}
		for _, r := range w.redis {
			q.s = append(q.s, r.Session(relock.WithObserver(o)))
		}
		require.Equal(t, "Acquired", panicOf(func() { _ = q.lock().Lock(background) }))
		require.NoError(t, kit.Together(len(q.s), func(i int) error { return q.s[i].Shutdown(background) }))
		require.NoError(t, <-lockAndUnlock(p.lock()))
	})
}
