package virtual_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

var errStop = errors.New("the caller has lost interest")

// waits calls Lock of a lock, which must end with its context after d, and returns its error.
func waits(t *testing.T, l relock.Locker, d time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(background, d, errStop)
	defer cancel()
	var err error
	require.Equal(t, d, took(func() { err = l.Lock(ctx) }))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, errStop, "the cause")
	require.NotContains(t, err.Error(), "\n")
	require.ErrorIs(t, l.Err(), relock.ErrNotHeld)
	return err
}

// isTaken waits for 1.5 s for a lock that somebody else keeps, and checks the error.
func (w *world) isTaken(t *testing.T, l relock.Locker) {
	w.isTakenBy(t, l, `another holder for 1\.[5-9]s`)
}

// isTakenBy is isTaken by that holder.
func (w *world) isTakenBy(t *testing.T, l relock.Locker, holder string) {
	t.Helper()
	err := waits(t, l, 1500*time.Millisecond)
	require.ErrorIs(t, err, relock.ErrTaken)
	verb := map[bool]string{true: "lock", false: "rlock"}[w.exclusive()]
	require.Regexp(t, `^relock: `+verb+` "a": lock taken by `+holder+`; context deadline exceeded; `+
		errStop.Error()+`$`, err.Error())
}

// byThisProcess is what the error of a call says that has waited for another call of its process.
func byThisProcess(call string) string {
	return `this process itself, by ` + call + `, \d+(\.\d+)?s ago; waited for 1\.[5-9]s`
}

// A call that waits for its own process, and so perhaps for itself, says so, whatever type of lock
// the process has, and by which kind of call.
func TestLockSaysThatItsOwnProcessHasTheLock(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		what := ""
		switch {
		case len(w.typ.names) > 1:
			what = "a Group without an owner"
		case !w.exclusive():
			return // readers do not wait for readers
		}
		says := func(call string) {
			t.Helper()
			if what != "" {
				call = what
			}
			w.isTakenBy(t, p.lock(), byThisProcess(call))
		}
		l := p.held()
		says("Lock without an owner")
		require.NoError(t, l.Unlock(background))
		require.NoError(t, relock.Do(background, p.lock(), func(context.Context) error {
			says("Acquire or Do without an owner")
			return nil
		}))
		if what != "" {
			return
		}
		owner := p.s[0].NewContext(background)
		l = p.lock()
		require.NoError(t, l.Lock(owner))
		says("Lock of another owner")
		require.NoError(t, l.Unlock(owner))
	})
}

// The other type of lock that has the name may be of the same owner.
func TestLockSaysThatItsOwnProcessHasTheLockAsAnotherType(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &lockTypes[0])
		p := w.process()
		s := p.s[0]
		owner := s.NewContext(background)
		locks := func() map[string]relock.Locker {
			return map[string]relock.Locker{
				"Mutex": s.Mutex("a"), "bounded": s.Mutex("a", relock.WithMaxHold(time.Hour)), "FairMutex": s.FairMutex("a"),
				"writer": s.RWMutex("a"), "reader": s.RWMutex("a").RLocker(),
				"reader of its own": s.RWMutex("a", relock.WithLease(time.Minute)).RLocker(),
			}
		}
		for held, outer := range locks() {
			require.NoError(t, outer.Lock(owner))
			for waiting, inner := range locks() {
				if strings.HasPrefix(held, "reader") && strings.HasPrefix(waiting, "reader") {
					continue
				}
				err := waits(t, inner, 1500*time.Millisecond)
				require.ErrorIs(t, err, relock.ErrTaken)
				require.ErrorContains(t, err, "lock taken by this process itself, by ", "%s behind %s", waiting, held)
				require.ErrorContains(t, err, "Lock of another owner, ", "%s behind %s", waiting, held)
				require.Equal(t, strings.HasPrefix(held, "reader"), strings.Contains(err.Error(), "a reader's Lock"))
			}
			require.NoError(t, outer.Unlock(owner))
		}
		require.NoError(t, s.RWMutex("a").Lock(owner))
		ctx, cancel := context.WithTimeout(owner, time.Second)
		defer cancel()
		require.ErrorContains(t, s.Mutex("a").Lock(ctx), "Lock of the same owner, through another type of lock")
	})
}

// Of a semaphore all permits must be its own; of a lock on one server a Redlock may be what has it.
func TestLockSaysThatItsOwnProcessHasAllPermits(t *testing.T) {
	alone(t, redlock, func(t *testing.T, w *world) {
		here, there := w.process(), w.process()
		own, other := here.s[0].Semaphore("permits", 2), there.s[0].Semaphore("permits", 2)
		require.NoError(t, own.Lock(background))
		require.NoError(t, other.Lock(background))
		require.ErrorContains(t, waits(t, here.s[0].Semaphore("permits", 2), 2*time.Second), "taken by another holder")
		require.NoError(t, other.Unlock(background))
		require.NoError(t, own.Lock(background))
		require.ErrorContains(t, waits(t, here.s[0].Semaphore("permits", 2), 2*time.Second), "taken by this process itself, by 2 calls, one of them Lock")
		require.ErrorContains(t, waits(t, there.s[0].Semaphore("permits", 2), 2*time.Second), "taken by another holder")

		here.held()
		require.ErrorContains(t, waits(t, here.s[0].Mutex("a"), 2*time.Second), "taken by this process itself, by a Redlock")
		require.ErrorContains(t, waits(t, there.s[0].Mutex("a"), 2*time.Second), "taken by another holder")
	})
}

// isSilent checks the error of a Lock whose Redis did not answer.
func isSilent(t *testing.T, err error) {
	t.Helper()
	require.NotErrorIs(t, err, relock.ErrTaken)
	// to the request, or of its connection
	require.Regexp(t, `; (no answer from Redis for \S+|i/o timeout|no connection: .+)$`, err.Error())
}

func TestLockSaysThatItWasTaken(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		here, there := w.process(), w.process()
		holder := there.opposite()
		require.NoError(t, holder.Lock(background))
		w.isTaken(t, here.lock())
		w.isTaken(t, w.process(relock.WithLease(50*time.Millisecond)).lock(relock.WithLease(lease)))

		first := make(chan error)
		go func() { first <- waits(t, here.lock(), 3*time.Second) }()
		time.Sleep(time.Second)
		w.isTaken(t, here.lock()) // behind the one that asks
		require.ErrorIs(t, <-first, relock.ErrTaken)
		require.NoError(t, holder.Unlock(background))
		if w.typ.redis > 1 || w.typ == semaphore { // of which nobody here knows whether more permits are free
			return
		}
		require.NoError(t, here.opposite().Lock(background))
		itself := byThisProcess("Lock without an owner")
		if len(w.typ.names) > 1 { // it locks its members as one
			itself = byThisProcess("a Group without an owner")
		}
		w.isTakenBy(t, here.lock(), itself)
		if w.passedOn() { // without asking Redis
			here.partition()
			w.isTakenBy(t, here.lock(), itself)
		}
	})
}

func TestLockSaysThatRedisDoesNotAnswer(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		if w.typ.redis > 1 || len(w.typ.names) > 1 {
			return // they say more
		}
		here, there := w.process(), w.process()
		heal := here.partition()
		isSilent(t, waits(t, here.lock(), 500*time.Millisecond)) // from the start
		_, err := here.lock().TryLock(background)
		require.Error(t, err)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "the caller has set none")
		heal()
		require.NoError(t, there.opposite().Lock(background))
		first := make(chan error)
		go func() { first <- waits(t, here.lock(), 20*time.Second) }()
		time.Sleep(5 * time.Second)
		heal = here.partition()
		err = waits(t, here.lock(), 14500*time.Millisecond)
		if w.typ.name == "FairMutex" { // asks for itself
			isSilent(t, err)
		} else {
			require.NotErrorIs(t, err, relock.ErrTaken)
		}
		isSilent(t, <-first) // although it was taken before
		heal()
		time.Sleep(10 * time.Second)
		require.ErrorIs(t, waits(t, here.lock(), time.Second), relock.ErrTaken)
	})
}

// The process has unlocked, and Redis does not confirm: nobody has the lock.
func TestLockBehindAReleaseWithoutAnAnswerIsNotTaken(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		l := p.held()
		p.partition()
		require.NoError(t, l.Unlock(background))
		synctest.Wait()
		require.NotErrorIs(t, waits(t, p.lock(), time.Second), relock.ErrTaken)
	})
}
