package virtual_test

import (
	"context"
	"errors"
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
	t.Helper()
	err := waits(t, l, 1500*time.Millisecond)
	require.ErrorIs(t, err, relock.ErrTaken)
	verb := map[bool]string{true: "lock", false: "rlock"}[w.exclusive()]
	require.Regexp(t, `^relock: `+verb+` "a": lock taken by another holder for 1\.[5-9]s; context deadline exceeded; `+
		errStop.Error()+`$`, err.Error())
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
		w.isTaken(t, here.lock())
		if w.passedOn() { // without asking Redis
			here.partition()
			w.isTaken(t, here.lock())
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
