package timing

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// hand is a clock that a test sets by hand.
type hand struct{ atomic.Int64 }

func (h *hand) Now() int64 { return h.Load() }

// sinceStart is a clock that counts Go's time.
type sinceStart struct{ time.Time }

func (s sinceStart) Now() int64 { return int64(time.Since(s.Time)) }

func newTimer(name string, slack time.Duration) *Timer[string] {
	return &Timer[string]{For: name, Slack: slack}
}

func TestTakeReturnsWhatIsDueAndWhatItsSlackLetsGoWithIt(t *testing.T) {
	s := NewSchedule[string](new(hand), new(sync.Mutex))
	due, early, late, never := newTimer("due", 0), newTimer("early", 5), newTimer("late", 5), newTimer("never", 0)
	s.Set(late, 6)
	s.Set(never, Forever)
	s.Set(early, 5)
	if got := s.Take(4); got != nil {
		t.Fatalf("%v is taken, and nothing is due", got)
	}
	s.Set(due, 9)
	s.Set(due, 0)
	if got, want := s.Take(0), []string{"due", "early"}; !slices.Equal(got, want) {
		t.Fatalf("%v is taken, not %v", got, want)
	}
	if due.Pending() || early.Pending() || !late.Pending() {
		t.Fatal("what is taken is pending, or what is not taken is not")
	}
	s.Stop(late)
	s.Stop(late)
	if got, want := s.All(), []string{"never"}; !slices.Equal(got, want) {
		t.Fatalf("%v is left, not %v", got, want)
	}
}

// run runs a schedule in a bubble until the function that it returns is called. What is due is sent
// with its time.
func run(s *Schedule[string], start time.Time) (done chan time.Duration, stop func()) {
	done, stopping := make(chan time.Duration, 100), make(chan struct{})
	go s.Run(stopping, func(due []string) { // ends with stop
		for range due {
			done <- time.Since(start)
		}
	})
	synctest.Wait()
	return done, func() { close(stopping); synctest.Wait() }
}

func TestRunHandsOverEachThingAtItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		start := time.Now()
		s := NewSchedule[string](sinceStart{start}, &mu)
		done, stop := run(s, start)
		defer stop()
		set := func(x *Timer[string], at time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			s.Set(x, int64(at))
		}
		first, second := newTimer("first", 0), newTimer("second", 0)
		set(second, 2*time.Hour)
		set(first, 3*time.Hour)
		synctest.Wait()
		set(first, time.Hour) // earlier than Run expects
		for _, want := range []time.Duration{time.Hour, 2 * time.Hour} {
			if got := <-done; got != want {
				t.Fatalf("handled after %v, not %v", got, want)
			}
		}
	})
}

// Go's timers do not count a suspend, and the clock of a schedule does.
func TestScheduleNoticesThatItsClockHasJumped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		clock, start := new(hand), time.Now()
		s := NewSchedule[string](clock, &mu)
		done, stop := run(s, start)
		defer stop()
		mu.Lock()
		s.Set(newTimer("x", 0), int64(time.Hour))
		mu.Unlock()
		time.Sleep(9*tick + tick/2)
		clock.Store(int64(time.Hour))
		if got := <-done; got != 10*tick {
			t.Fatalf("handled after %v, not at the next tick", got)
		}
	})
}
