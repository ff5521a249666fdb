package timing

import (
	"container/heap"
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

// A Schedule is what one goroutine has to do, each thing at its time. The goroutine calls Run. Others
// set timers, and wake it if one is due earlier than it expects.
type Schedule[T any] struct {
	Clock interface{ Now() int64 }
	Mu    sync.Locker   // the user's: guards Tick, and the timers
	Slack time.Duration // no timer has more
	Tick  time.Duration // Run looks at the clock at least that often while timers are pending, unless 0
	Kick  chan struct{} // has room for a signal, which wakes Run up

	timers timers[T]
	wakeAt int64 // when Run wakes up next
}

// NewSchedule returns an empty schedule that the user's mutex mu guards.
func NewSchedule[T any](clock interface{ Now() int64 }, mu sync.Locker) *Schedule[T] {
	return &Schedule[T]{Clock: clock, Mu: mu, Kick: make(chan struct{}, 1)}
}

// Run hands work what is due, whenever that is and after each signal, until done is closed. Mu must
// not be locked.
func (s *Schedule[T]) Run(done <-chan struct{}, work func(due []T)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.Kick:
		case <-done:
			return
		}
		s.Mu.Lock()
		due := s.Take(s.Clock.Now())
		s.Mu.Unlock()
		work(due)
		timer.Reset(s.untilNext())
	}
}

func (s *Schedule[T]) untilNext() time.Duration {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	now := s.Clock.Now()
	s.wakeAt = Forever
	if len(s.timers) > 0 {
		s.wakeAt = s.timers[0].At
		if s.Tick > 0 {
			s.wakeAt = min(s.wakeAt, now+int64(s.Tick))
		}
	}
	return time.Duration(max(0, s.wakeAt-now))
}

// Set makes t due at a time, whether it is pending or not.
func (s *Schedule[T]) Set(t *Timer[T], at int64) {
	t.At = at
	if t.Pending() {
		heap.Fix(&s.timers, t.place-1)
	} else {
		heap.Push(&s.timers, t)
	}
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

// Take removes the timers that are due and, if there is one, those whose slack lets them go with it. It
// returns what they are for.
func (s *Schedule[T]) Take(now int64) (due []T) {
	if len(s.timers) == 0 || s.timers[0].At > now {
		return nil
	}
	var later timers[T]
	for len(s.timers) > 0 && s.timers[0].At <= now+int64(s.Slack) {
		if t := heap.Pop(&s.timers).(*Timer[T]); t.At <= now+int64(t.Slack) {
			due = append(due, t.For)
		} else {
			later = append(later, t)
		}
	}
	for _, t := range later {
		heap.Push(&s.timers, t)
	}
	return due
}

// All returns what the pending timers are for.
func (s *Schedule[T]) All() []T {
	all := make([]T, len(s.timers))
	for i, t := range s.timers {
		all[i] = t.For
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
	(*ts)[last] = nil
	*ts = (*ts)[:last]
	t.place = 0
	return t
}
