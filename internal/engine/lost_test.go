package engine

import (
	"testing"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// waiting locks l in a goroutine, and returns when that waits in Redis.
func waiting(t *testing.T, l *Lock) <-chan error {
	got := make(chan error, 1)
	go func() { got <- l.Lock(background) }() // ends with the test at the latest
	redistest.Eventually(t, enough, "a call to queue", func() bool { return l.e.Waits(l.keys.Name) })
	return got
}

// Goroutines that share a handle exclude each other, after a loss too: what one of them has lost must be
// unlocked before another one gets the lock, although it asked before the loss. Otherwise that unlock would end the
// other one's hold.
func TestUnlockOfALostHoldDoesNotEndThatOfTheNext(t *testing.T) {
	t.Parallel()
	for _, k := range []wire.Kind{wire.Fair, wire.Read} {
		_, client := redistest.Mini(t)
		e := newEngine(t, client, time.Hour)
		l := newLock(e, k, "a", LockConfig{})
		require.NoError(t, l.Lock(background))
		lost := l.refresh(l.handle.Latest())
		unblock := func() {}
		if k == wire.Read { // readers ask only while a writer waits
			writer := newLock(newEngine(t, client, time.Hour), wire.Write, "a", LockConfig{})
			got := waiting(t, writer)
			time.Sleep(20 * time.Millisecond) // the tenure ends
			unblock = func() {
				require.NoError(t, within(t, got, "the writer"))
				require.NoError(t, writer.Unlock(background))
			}
		}
		next := waiting(t, l)
		e.Lost(lost.Lease(), lease.ErrExpired)
		unblock()
		select {
		case err := <-next:
			t.Fatalf("kind %d: the next call returns %v before the unlock", k, err)
		case <-time.After(200 * time.Millisecond):
		}
		require.ErrorIs(t, l.Unlock(background), lockerr.ErrLost)
		require.NoError(t, within(t, next, "the next call"))
		require.NoError(t, l.Err())
		require.NoError(t, l.Unlock(background))
		require.ErrorIs(t, l.Unlock(background), lockerr.ErrNotHeld)
		require.Equal(t, arbiter.Lost, lost.State())
	}
}

// A request that Redis executes after the Unlock of its hold, since the network delayed it, and a later one got the
// lock under the same id, leaves nothing.
func TestRequestThatIsExecutedAfterTheUnlock(t *testing.T) {
	t.Parallel()
	mini, client := redistest.Mini(t)
	e := newEngine(t, client, time.Hour)
	l := newLock(e, wire.Plain, "a", LockConfig{})
	require.NoError(t, l.Lock(background))
	held := l.refresh(l.handle.Latest()).Lease()
	held.Indeterminate = true // as after a request without a reply
	require.NoError(t, l.Unlock(background))
	token, _, err := e.proto.Acquire(transport.Background(), &held.Ref, l.leaseMS, false)
	require.NoError(t, err)
	require.Positive(t, token)
	redistest.Eventually(t, enough, "its release", func() bool { return !mini.Exists("a") })
}

func TestLateReplyIsTriedAgain(t *testing.T) {
	require.True(t, transport.Transient(ErrLate))
	_, ok := transport.Code(ErrLate)
	require.False(t, ok, "it is taken for an error reply")
}
