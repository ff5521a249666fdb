package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/cmd/relock/internal/locks"
)

const (
	samples    = 20
	clockSlack = time.Second           // more is worth a look
	slow       = 50 * time.Millisecond // a round trip that every Lock waits for
	late       = time.Second           // for a message; without it, a timer wakes the waiter
	trialTime  = 30 * time.Second
)

// clock compares the clocks of the servers with this host's. The shortest of some round trips
// is the most exact.
func (e *Exam) clock(ctx context.Context) {
	nodes, err := locks.Primaries(ctx, e.client)
	if err != nil {
		return // said before
	}
	for _, n := range nodes {
		where := ""
		if len(nodes) > 1 {
			where = n.Address + ": "
		}
		var best, ahead time.Duration
		for range samples {
			a, trip, err := locks.Clock(ctx, n.Client)
			if err == nil && (best == 0 || trip < best) {
				best, ahead = trip, a
			}
		}
		if best == 0 {
			e.say(Warning, "clock", where+"the server does not tell the time", "")
			continue
		}
		e.judgeClock(where, ahead, best)
	}
}

func (e *Exam) judgeClock(where string, ahead, roundTrip time.Duration) {
	which := "ahead of"
	if ahead < 0 {
		which = "behind"
	}
	text := fmt.Sprintf("%sthe server's is %v %s this host's, give or take %v", where,
		ahead.Abs().Round(10*time.Microsecond), which, (roundTrip / 2).Round(10*time.Microsecond))
	if ahead.Abs() > clockSlack {
		e.say(Warning, "clock", text, "relock does not compare them, but one of them is wrong; leases end early if the "+
			"server's is set forward, so let NTP slew it")
		return
	}
	e.say(OK, "clock", text, "")
}

func (e *Exam) roundTrip(ctx context.Context) {
	var trips []time.Duration
	for range samples {
		if _, trip, err := locks.Clock(ctx, e.client); err == nil { // a server answers TIME in any state
			trips = append(trips, trip)
		}
	}
	if len(trips) == 0 {
		e.say(Problem, "round trip", "no TIME was answered", "")
		return
	}
	slices.Sort(trips)
	median, longest := trips[len(trips)/2], trips[len(trips)-1]
	text := fmt.Sprintf("%v, at most %v", median.Round(time.Microsecond), longest.Round(time.Microsecond))
	if median > slow {
		e.say(Warning, "round trip", text+": every Lock takes at least as long", "run closer to Redis")
		return
	}
	e.say(OK, "round trip", text, "")
}

// trial passes a lock from one session to another, unless that cannot work.
func (e *Exam) trial(ctx context.Context) {
	if e.shut {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	wait, err := e.pass(ctx)
	switch {
	case err != nil:
		e.say(Problem, "trial", err.Error(), "")
	case wait > late:
		e.say(Warning, "pub/sub", fmt.Sprintf("a waiter noticed a release only after %v: messages do not arrive", wait.Round(time.Millisecond)), "")
	default:
		e.say(OK, "pub/sub", fmt.Sprintf("a waiter got the lock %v after its release", wait.Round(10*time.Microsecond)), "")
	}
}

// pass has a session wait for a lock of another one, and returns how long it took from release
// to acquisition.
func (e *Exam) pass(ctx context.Context) (time.Duration, error) {
	var sessions [2]*relock.Session
	for i := range sessions {
		s, err := relock.NewSession(ctx, e.client)
		if err != nil {
			return 0, err
		}
		defer func() { _ = s.Close(context.WithoutCancel(ctx)) }()
		sessions[i] = s
	}
	first, second := sessions[0].Mutex(e.name), sessions[1].Mutex(e.name)
	if err := first.Lock(ctx); err != nil {
		return 0, err
	}
	acquired := make(chan error, 1)
	go func() { acquired <- second.Lock(ctx) }()
	time.Sleep(2 * slow) // so that it waits
	released := time.Now()
	if err := first.Unlock(ctx); err != nil {
		return 0, err
	}
	if err := <-acquired; err != nil {
		return 0, err
	}
	wait := time.Since(released)
	return wait, second.Unlock(ctx)
}
