package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
)

// label keeps the session's label in Redis while the session holds or queues. One goroutine
// writes it: when a call asks Redis while there is none, then every third of a lease. It deletes
// the label soon after the session has stopped using locks, but if that would make it write twice
// in a third of a lease, only after one in which the session used none.
//
// The call that causes the first write goes on meanwhile, and waits for it, labelMost at most,
// only when it has the lock: so whoever finds the lock taken can read by whom.
type label struct {
	e    *Engine
	used atomic.Bool                   // a call has asked Redis since the last write
	kick chan struct{}                 // signals that used was set
	done atomic.Pointer[chan struct{}] // closed when the label is there, or cannot be written

	// Only run uses these.
	wrote int64         // when the last write was sent
	third time.Duration // of a lease
}

const (
	labelMost  = 10 * time.Millisecond  // how long a call waits for the label
	labelWrite = 250 * time.Millisecond // how long the answer to one write may take
	labelQuick = 100 * time.Millisecond // the first look whether the session still uses locks
)

func newLabel(e *Engine) *label {
	l := &label{e: e, kick: make(chan struct{}, 1), third: e.Config.Lease / 3, wrote: -lease.Forever}
	l.reset()
	if e.Config.Label == "" {
		l.disable()
	}
	return l
}

// reset makes calls wait for the next write.
func (l *label) reset() {
	done := make(chan struct{})
	l.done.Store(&done)
}

func (l *label) disable() {
	l.used.Store(true) // as if it had just been written
	close(*l.done.Load())
}

// asking records that a call is about to ask Redis.
func (l *label) asking() {
	if !l.used.Load() && l.used.CompareAndSwap(false, true) {
		timing.Signal(l.kick)
	}
}

// await waits for the label, for a short time.
func (l *label) await() {
	done := *l.done.Load()
	select {
	case <-done:
		return
	default:
	}
	timer := time.NewTimer(labelMost)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
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
		l.reset()
		l.drop()
	}
}

// keep writes the label for as long as the session is in use. It reports whether it may.
func (l *label) keep() bool {
	written := sync.OnceFunc(func() { close(*l.done.Load()) })
	often := l.e.Clock.Now()-l.wrote < int64(l.third)
	for {
		l.wrote = l.e.Clock.Now()
		err := l.write()
		written()
		if code, _ := transport.Code(err); code == "NOPERM" {
			l.used.Store(true)
			return false
		}
		look := min(labelQuick, l.third)
		for left := l.third; left > 0; left = time.Duration(l.wrote + int64(l.third) - l.e.Clock.Now()) {
			if often {
				look = left
			}
			if !l.sleep(min(look, left)) {
				return true
			}
			switch {
			case l.used.Swap(false):
				look = labelQuick
			case l.e.calls.Load() == 0 && l.e.watchdog.Longest() == 0:
				return true
			default: // in use for a longer time
				look *= 2
			}
		}
	}
}

// sleep returns false if the engine ends.
func (l *label) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.e.ioCtx.Done():
		return false
	}
	select {
	case <-l.kick: // used is set
	default:
	}
	return true
}

// write stores the label until the last lease has ended that may start before the next write.
func (l *label) write() error {
	ctx, stop := l.e.proto.Bounded(l.e.ioCtx, labelWrite)
	defer stop()
	return l.e.proto.SetLabel(ctx, l.e.id, l.e.Config.Label, max(l.e.Config.Lease, l.e.watchdog.Longest())+l.third)
}

func (l *label) drop() {
	ctx, stop := l.e.proto.Bounded(l.e.abandoned, labelWrite)
	defer stop()
	_ = l.e.proto.DropLabel(ctx, l.e.id) // it expires
}
