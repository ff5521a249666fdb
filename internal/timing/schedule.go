package timing

import (
	"container/heap"
	"slices"
	"sync"
	"time"
)

// Forever is a time that never comes.
const Forever = int64(1) << 62

// A Timer says when something is due in a [Schedule].
type Timer[T any] struct {
	For   T             // what is due
	At    int64         // when; changed by Set only
	Slack time.Duration // how much earlier it may be handled together with others
	place int           // in Schedule.timers, counted from 1; 0: not pending
}

// Pending reports whether t is in a schedule.
func (t *Timer[T]) Pending() bool { return t.place > 0 }

// tick is how often a schedule looks at its clock at least. Go's timers stand still while the
// machine is suspended, and the clock does not.
const tick = 250 * time.Millisecond

// A Schedule is what one goroutine has to do, each thing at its time. The goroutine calls Run.
// Others set timers, and wake it if one is due earlier than it expects. Make it with NewSchedule.
type Schedule[T any] struct {
	Kick chan struct{} // has room for a signal, which wakes Run up

	clock  interface{ Now() int64 }
	mu     sync.Locker // the user's; protects the following, and is held by the callers of all methods but Run
	timers timers[T]
	wakeAt int64 // when Run wakes up next
}

// NewSchedule returns an empty schedule that the user's mutex mu guards.
func NewSchedule[T any](clock interface{ Now() int64 }, mu sync.Locker) *Schedule[T] {
	return &Schedule[T]{Kick: make(chan struct{}, 1), clock: clock, mu: mu}
}

// Run hands work what is due, whenever that is and after each signal, until done is closed. It does
// not begin with a timer of 0: two goroutines of a bubble that receive from timers that ran out
// crash the race detector of Go 1.26.
func (s *Schedule[T]) Run(done <-chan struct{}, work func(due []T)) {
	timer := time.NewTimer(tick)
	defer timer.Stop()
	for {
		s.mu.Lock()
		now := s.clock.Now()
		due := s.Take(now)
		s.wakeAt = Forever
		if len(s.timers) > 0 {
			s.wakeAt = min(s.timers[0].At, now+int64(tick))
		}
		timer.Reset(time.Duration(s.wakeAt - now))
		s.mu.Unlock()
		work(due)
		select {
		case <-timer.C:
		case <-s.Kick:
		case <-done:
			return
		}
	}
}

// Set makes t due at a time, whether it is pending or not.
func (s *Schedule[T]) Set(t *Timer[T], at int64) {
	s.Stop(t)
	t.At = at
	heap.Push(&s.timers, t)
	if at < s.wakeAt {
		Signal(s.Kick)
	}
}

// Stop removes t, if it is pending.
func (s *Schedule[T]) Stop(t *Timer[T]) {
	if t.Pending() {
		heap.Remove(&s.timers, t.place-1)
	}
}

// Take removes the timers that are due. If there is one, it goes on to those whose slack lets them
// go with it, up to the first whose slack does not. It returns what they are for.
func (s *Schedule[T]) Take(now int64) (due []T) {
	for len(s.timers) > 0 {
		t := s.timers[0]
		if t.At > now && (due == nil || t.At > now+int64(t.Slack)) {
			break
		}
		heap.Pop(&s.timers)
		due = append(due, t.For)
	}
	return due
}

// Pop removes the timer that is due first, of one or more, and returns what it is for.
func (s *Schedule[T]) Pop() T { return heap.Pop(&s.timers).(*Timer[T]).For }

// Len returns how many timers are pending.
func (s *Schedule[T]) Len() int { return len(s.timers) }

// All returns what the pending timers are for.
func (s *Schedule[T]) All() (all []T) {
	for _, t := range s.timers {
		all = append(all, t.For)
	}
	return all
}

// timers are a heap.Interface: the first is due first.
type timers[T any] []*Timer[T]

func (ts timers[T]) Len() int           { return len(ts) }
func (ts timers[T]) Less(i, j int) bool { return ts[i].At < ts[j].At }

func (ts timers[T]) Swap(i, j int) {
	ts[i], ts[j] = ts[j], ts[i]
	ts[i].place, ts[j].place = i+1, j+1
}

func (ts *timers[T]) Push(x any) {
	t := x.(*Timer[T])
	*ts = append(*ts, t)
	t.place = len(*ts)
}

func (ts *timers[T]) Pop() any {
	last := len(*ts) - 1
	t := (*ts)[last]
	t.place = 0
	*ts = slices.Delete(*ts, last, last+1)
	return t
}
