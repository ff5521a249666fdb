package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
)

// label keeps the session's label in Redis while the session holds or queues. One goroutine
// writes it: when a call asks Redis while there is none, then every third of a lease, together with
// renewals if there are any. It deletes the label soon after the session has stopped using locks, but
// if that would make it write twice in a third of a lease, only after one in which the session used none.
//
// The next script takes a write along, so that it costs no round trip, and whoever finds the lock
// taken can read by whom. In a cluster, where the label is in another slot, and with replicas the
// label is written meanwhile, and the call waits for it, labelMost at most, when it has the lock.
type label struct {
	e    *Engine
	used atomic.Bool          // a call has asked Redis since the last write
	kick chan struct{}        // signals that used was set
	gate atomic.Pointer[gate] // opened when the label is there, or cannot be written

	along *transport.Along // a write; nil if no script may take it along
	going atomic.Bool      // it is to be taken along, or was and its result is not read
	taken chan error       // its result
	ride  chan struct{}    // signals that a renewal takes it along
	wrote atomic.Int64     // when the last write was sent
	third time.Duration    // of a lease
	apart time.Duration    // from one write to the next: a little more
	often int64            // a write before that time would be the second in a third; only run uses it
}

// gate is open once its context has ended.
type gate struct {
	context.Context
	open func()
}

const (
	labelMost  = 10 * time.Millisecond  // how long a call waits for the label
	labelQuick = 100 * time.Millisecond // the first look whether the session still uses locks

	// labelWrite is how long one write may take. One with an earlier end would make rueidis pipeline
	// for good; see transport.Context.
	labelWrite = transport.Patience
)

func newLabel(e *Engine) *label {
	l := &label{
		e: e, kick: make(chan struct{}, 1), taken: make(chan error, 1), ride: make(chan struct{}, 1), third: e.Config.Lease / 3,
	}
	l.apart = l.third + l.third/50
	l.wrote.Store(-lease.Forever)
	l.reset()
	if e.Config.Label == "" {
		l.disable()
	}
	return l
}

// start begins to serve the label. The engine knows its topology.
func (l *label) start() {
	if l.e.proto.Slots == nil && l.e.Config.Replicas == 0 {
		l.along = &transport.Along{
			Command: func() rueidis.Completed {
				l.wrote.Store(l.e.Clock.Now())
				return l.e.proto.LabelCommand(l.e.id, l.e.Config.Label, l.length())
			},
			Done: func(err error) {
				l.gate.Load().open()
				l.taken <- err
			},
		}
	}
	l.e.own.Go(l.run)
}

// reset makes calls wait for the next write.
func (l *label) reset() {
	ctx, open := context.WithCancel(context.Background())
	l.gate.Store(&gate{ctx, open})
}

// disable ends all use of the label.
func (l *label) disable() {
	l.used.Store(true)  // as if it had just been written
	l.going.Store(true) // nothing takes it along
	l.gate.Load().open()
}

// asking records that a call is about to ask Redis.
func (l *label) asking() {
	if l.used.Load() || !l.used.CompareAndSwap(false, true) {
		return
	}
	if l.along != nil && !l.written() {
		l.takeAlong()
	}
	timing.Signal(l.kick)
}

// renewing has the renewals that are about to be sent take the label along, unless it has just been
// written. So a session that only holds does not wake up for it.
func (l *label) renewing() {
	if l.along != nil && l.left() < l.apart-l.third/8 && l.written() && l.takeAlong() {
		timing.Signal(l.ride)
	}
}

func (l *label) takeAlong() bool {
	if !l.going.CompareAndSwap(false, true) {
		return false
	}
	l.e.proto.TakeAlong(l.along)
	return true
}

func (l *label) written() bool {
	select {
	case <-l.gate.Load().Done():
		return true
	default:
		return false
	}
}

// await waits for the label, for a short time, which those who wait one after the other share.
func (l *label) await() {
	if l.written() {
		return
	}
	g := l.gate.Load()
	timing.Pause(g, labelMost)
	g.open()
}

// run writes and deletes the label until the engine ends.
func (l *label) run() {
	for {
		select {
		case <-l.kick:
		case <-l.e.ioCtx.Done():
			return
		}
		if !l.keep() {
			return
		}
		l.often = l.wrote.Load() + int64(l.third)
		l.drop() // before any write that follows
		l.reset()
	}
}

// keep writes the label for as long as the session is in use. It reports whether it may.
func (l *label) keep() bool {
	first := min(labelQuick, l.apart)
	if l.e.Clock.Now() < l.often {
		first = l.apart
	}
	for look := first; ; {
		err := l.write()
		if code, _ := transport.Code(err); code == "NOPERM" {
			l.disable()
			return false
		}
		l.gate.Load().open()
		for left := l.left(); left > 0; left = l.left() {
			if !l.sleep(min(look, left)) {
				return true
			}
			if l.going.Load() { // a renewal takes it along
				break
			}
			switch {
			case l.used.Swap(false):
				look = first
			case l.e.calls.Load() == 0 && l.e.watchdog.Longest() == 0:
				return true
			default: // in use for a longer time
				look = min(2*look, l.apart)
			}
		}
	}
}

// left returns how long it takes until the label is due again.
func (l *label) left() time.Duration {
	return time.Duration(l.wrote.Load() + int64(l.apart) - l.e.Clock.Now())
}

// write stores the label. A script takes it along if one is sent soon.
func (l *label) write() error {
	if l.along == nil {
		return l.writeAlone()
	}
	l.takeAlong()
	defer l.going.Store(false)
	timer := time.NewTimer(l.third / 10)
	defer timer.Stop()
	select {
	case err := <-l.taken:
		return err
	case <-timer.C:
	case <-l.e.ioCtx.Done():
	}
	if l.e.proto.LeaveBehind(l.along) {
		return l.writeAlone()
	}
	return <-l.taken // calls end, in a closed session too
}

// sleep ends when a renewal takes the label along. It returns false if the engine ends.
func (l *label) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.ride:
	case <-l.e.ioCtx.Done():
	}
	select {
	case <-l.kick: // used is set
	default:
	}
	return l.e.ioCtx.Err() == nil
}

func (l *label) writeAlone() error {
	l.wrote.Store(l.e.Clock.Now())
	ctx, stop := l.e.proto.Bounded(l.e.ioCtx, labelWrite)
	defer stop()
	return l.e.proto.SetLabel(ctx, l.e.id, l.e.Config.Label, l.length())
}

// length returns how long the label is kept: until the last lease has ended that may start before
// the next write.
func (l *label) length() time.Duration {
	return max(l.e.Config.Lease, l.e.watchdog.Longest()) + l.third + l.third/4
}

func (l *label) drop() {
	ctx, stop := l.e.proto.Bounded(l.e.abandoned, labelWrite)
	defer stop()
	_ = l.e.proto.DropLabel(ctx, l.e.id) // it expires
}
