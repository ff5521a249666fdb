package kit

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A stopwatch measures how long something takes, less the time for which the machine has
// kept this process from running meanwhile: that is the floor for whatever has a bound.
type stopwatch struct {
	Start time.Time
	late  int64 // of the process until then
}

func StartWatch() stopwatch { return stopwatch{time.Now(), pulse.beat()} }

// Took returns the time since the start without that.
func (w stopwatch) Took() time.Duration { return time.Since(w.Start) - w.Held() }

// Held returns for how long this process was kept from running since the start.
func (w stopwatch) Held() time.Duration { return time.Duration(pulse.beat() - w.late) }

// pulse sleeps all the time, and sums up how much longer than it has asked for. It does
// one thing after the other, like the tests, and so waits for a processor as often.
var pulse heart

type heart struct {
	once sync.Once
	late atomic.Int64
	quit chan struct{} // nil before the first beat
	done chan struct{}
}

func (h *heart) beat() int64 {
	h.once.Do(func() {
		h.quit, h.done = make(chan struct{}), make(chan struct{})
		go h.run()
	})
	return h.late.Load()
}

func (h *heart) run() {
	defer close(h.done)
	const pause, grain = 5 * time.Millisecond, time.Millisecond
	for {
		start := time.Now()
		select {
		case <-h.quit:
			return
		case <-time.After(pause):
		}
		h.late.Add(int64(max(0, time.Since(start)-pause-grain)))
	}
}

func (h *heart) stop() {
	if h.quit != nil {
		close(h.quit)
		<-h.done
	}
}

// pulsed is what runs the tests.
type pulsed struct{ *testing.M }

func (m pulsed) Run() int {
	defer pulse.stop()
	return m.M.Run()
}
