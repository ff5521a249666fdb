package acquire

import (
	"errors"
	"time"

	"github.com/relock-go/relock/internal/local"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/timing"
)

// How a call gets its turn in this process: its owner may hold the lock already, or another call of
// its owner acquires it; another call of the process may have it; or Redis is to be asked.

// A Turn is a call while it waits for its turn. A Redlock waits in the same way.
type Turn struct {
	Asker
	Key  local.Key
	Call *local.Call
	C    *Call
}

// An Asker is the rest of a call that has a turn: it asks Redis when that has come.
type Asker interface {
	// Table returns where the call waits for its turn; nil: it asks Redis at once.
	Table() *local.Table

	// Ask asks Redis. It returns a hold or an error; else the step says what comes next, which is
	// Refuse if the lock is taken and the call does not wait.
	Ask(step local.Step) (h *local.Hold, next local.Step, err error)

	// Pause waits for d unless that is 0, a signal, or Call.C. It returns why the call does not go on.
	Pause(d time.Duration, signal <-chan struct{}) error

	// Follow does what a step says of a lease: lose it, release what was kept, or take it over.
	Follow(step local.Step)

	Behind(before any)                 // the call waits for another one of its owner; nil: not any more
	Refresh(h *local.Hold) (lost bool) // loses a hold that is not valid any more
	GiveBack(h *local.Hold)            // ends what the call was granted, and does not want
	Patience() time.Duration           // how much longer a call waits for Redis that does not wait for the lock
	Verdict() (taken bool, err error)  // what is known of the lock
	Fails(errs ...error) error         // what the call returns because of errs
	Now() int64
}

// ErrStartOver: a call was let in with a hold that had expired by the time the call woke up, and has
// given it back; or its owner has adopted the lock.
var ErrStartOver = errors.New("the call must start over")

// ErrLate: a lease was over before its grant arrived. If the call waits it starts over, after a
// pause that grows: otherwise a few calls whose leases are too short for the round trip would keep
// all others from the lock, those of their own processes first.
var ErrLate = errors.New("the reply came after the lease it grants had ended")

// Take returns a hold, or neither hold nor error if the lock is taken and the call does not wait.
func (t *Turn) Take() (*local.Hold, error) {
	for pause := timing.MinBackoff; ; {
		h, err := t.take(t.Call.Owner)
		switch err {
		case ErrStartOver:
		case ErrLate:
			if err := t.Pause(timing.Jitter(pause), nil); err != nil && err != ErrStartOver {
				return nil, err
			}
			pause = min(2*pause, timing.MaxBackoff)
		default:
			return h, err
		}
	}
}

// take is Take for o, unless that is nil. Of several calls of an owner at the same time one acquires
// the lock, and the others follow it.
func (t *Turn) take(o *local.Owner) (*local.Hold, error) {
	if o == nil {
		return t.enter()
	}
	for _, reads := range []bool{false, true} {
		if h := o.Held(t.Key, reads); h != nil {
			t.Refresh(h)
		}
	}
	switch e, h, news, before := o.Enter(t.Key, t.Call.Reads, t.C.Due, t.Call); e {
	case local.Entered:
		t.C.Entered(h)
		return h, nil
	case local.Lapsed:
		return nil, t.Fails(lockerr.ErrUnlockFirst, h.Cause())
	case local.Upgrading:
		return nil, t.Fails(lockerr.ErrUpgrade)
	case local.Follow:
		t.Behind(before)
		defer t.Behind(nil)
		if taken, _ := t.Verdict(); taken && !t.C.Wait {
			return nil, nil
		}
		if err := t.wait(news); err != nil {
			return nil, err
		}
		return nil, ErrStartOver
	}
	return t.takeFirst(o)
}

// takeFirst acquires the lock for o, whose first call this is.
func (t *Turn) takeFirst(o *local.Owner) (h *local.Hold, err error) {
	settled := false
	defer func() {
		if !settled { // an observer has panicked
			o.Settle(t.Key, t.Call.Reads, t.C.Due, t.Call, nil, false)
		}
	}()
	h, err = t.enter()
	again := err == ErrStartOver || err == ErrLate
	has, lapsed := o.Settle(t.Key, t.Call.Reads, t.C.Due, t.Call, h, h != nil || again)
	settled = true
	if h != nil && has != h {
		t.GiveBack(h)
	}
	switch {
	case lapsed != nil && (h != nil || errors.Is(err, lockerr.ErrTaken)): // it has waited for itself
		return nil, t.Fails(lockerr.ErrUnlockFirst, lapsed.Cause(), lockerr.Bare(err))
	case has != nil && has != h:
		t.C.Got(has, true)
		return has, nil
	}
	return has, err
}

// enter waits until another call of the process lets this one in, or asks Redis.
func (t *Turn) enter() (h *local.Hold, err error) {
	table := t.Table()
	if table == nil {
		h, _, err = t.Ask(local.Step{Do: local.Ask})
		return h, err
	}
	in := false
	defer func() {
		// A call that ends may have been let in at the same moment. The table decides which it was.
		if h := table.Left(t.Call, t.Now()); h != nil && !in {
			t.GiveBack(h)
		}
	}()
	for step := table.Lock(t.Call, t.Now()); ; {
		switch step.Do {
		case local.Enter:
			if h = step.Hold; t.Refresh(h) {
				return nil, ErrStartOver
			}
			in = true
			t.C.Got(h, h.Passed || h.Reads)
			if step.Kept {
				t.C.Kept()
			}
			t.Follow(step)
			return h, nil
		case local.Refuse:
			t.C.taken = t.C.taken || table.Ahead(t.Call).Held
			return nil, nil
		case local.Lose:
			t.Follow(step)
			step = table.Lock(t.Call, t.Now())
		case local.Ask:
			h, step, err = t.Ask(step)
			if in = h != nil; in || err != nil {
				return h, err
			}
		case local.Release:
			t.Follow(step)
			step.Do = local.Wait
		case local.Wait:
			if err := t.wait(nil); err != nil {
				return nil, err
			}
			step = table.Next(t.Call)
		}
	}
}

// wait blocks until the table, or signal, has something new for the call. A call that does not wait
// for the lock waits for an answer of Redis to another call of this process.
func (t *Turn) wait(signal <-chan struct{}) error {
	t.C.Alone()
	if t.C.Contend(); t.C.Wait {
		return t.Pause(0, signal)
	}
	began, most := t.Now(), max(t.Patience(), 1)
	if err := t.Pause(most, signal); err != nil {
		return err
	}
	if t.Now()-began >= int64(most) {
		return t.Fails(lockerr.ErrUnavailable, errUnconfirmed)
	}
	return nil
}
