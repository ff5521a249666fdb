package relock_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// fencedLocker is an exclusive lock of any kind.
type fencedLocker interface {
	relock.Locker
	FencingToken() int64
	Deadline() (time.Time, bool)
}

// lostIn waits until m is lost, and looks at all that tells of it.
func lostIn(t testing.TB, within time.Duration, m fencedLocker) {
	t.Helper()
	done := m.Done()
	redistest.Eventually(t, within, "Done to be closed", func() bool { return isClosed(done) })
	require.ErrorIs(t, m.Err(), relock.ErrLost)
	_, certain := m.Deadline()
	require.False(t, certain)
	require.NotZero(t, m.FencingToken(), "a token to compare with stays after a loss")
}

// The watchdog would notice in ten seconds.
func TestForceUnlockTellsTheHolderAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s, other := newSession(t, at), newSession(t, at)
		for _, by := range []*relock.Session{other, s} {
			m := s.Mutex("lock")
			lock(t, background, m)
			was, err := by.ForceUnlock(background, "lock")
			require.NoError(t, err)
			require.True(t, was)
			require.True(t, tryLock(t, background, other.Mutex("lock")), "the lock is free whether the holder knows or not")
			lostIn(t, quickly, m)
			require.ErrorIs(t, m.Unlock(background), relock.ErrLost)
			require.ErrorIs(t, m.Unlock(background), relock.ErrNotHeld)
			require.Len(t, holdersOf(t, s, "lock"), 1, "the next one's hold stays")
			require.Equal(t, other.ID(), holdersOf(t, s, "lock")[0].Session)
			_, err = by.ForceUnlock(background, "lock")
			require.NoError(t, err)
		}
	})
}

func TestForceUnlockOfAFreeLockIsFalse(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		was, err := newSession(t, at).ForceUnlock(background, "lock")
		require.NoError(t, err)
		require.False(t, was)
	})
}

// A message about a hold that is over must not end the one after it.
func TestForceUnlockEndsOnlyTheHoldThatItFound(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s, client := newSession(t, at), newClient(t, at)
		m := s.Mutex("lock")
		lock(t, background, m)
		old := holdersOf(t, s, "lock")[0].ID
		unlock(t, background, m)
		lock(t, background, m)
		tell := func(message string) {
			b := client.B().Publish().Channel("relock_session:" + s.ID()).Message(message).Build()
			require.NoError(t, client.Do(background, b).Error())
		}
		tell("lost " + old + " lock")
		for _, nonsense := range []string{"", "lost", "lost ", "lost lock", "0", "lost " + old + "0 other"} {
			tell(nonsense)
		}
		forced := s.Mutex("marker") // its loss says that the messages before have arrived
		lock(t, background, forced)
		forceUnlock(t, s, forced)
		require.NoError(t, m.Err())
		unlock(t, background, m)
	})
}

// Whatever somebody does to the key behind the holder's back, the next renewal
// finds out, and touches nothing that is not the holder's.
func TestAHoldThatIsGoneIsLostAtTheNextRenewal(t *testing.T) {
	do := func(t *testing.T, c rueidis.Client, args ...string) {
		require.NoError(t, c.Do(background, c.B().Arbitrary(args...).Build()).Error())
	}
	harm := map[string]func(t *testing.T, c rueidis.Client){
		"deleted": func(t *testing.T, c rueidis.Client) { do(t, c, "DEL", "lock") },
		"flushed": func(t *testing.T, c rueidis.Client) { do(t, c, "FLUSHALL") },
		"another's": func(t *testing.T, c rueidis.Client) {
			do(t, c, "DEL", "lock")
			do(t, c, "HSET", "lock", "someone:1", "1")
			do(t, c, "PEXPIRE", "lock", "600000")
		},
		"another type": func(t *testing.T, c rueidis.Client) { do(t, c, "SET", "lock", "text", "PX", "600000") },
	}
	for what, harm := range harm {
		t.Run(what, func(t *testing.T) {
			onBoth(t, func(t *testing.T, at addressed) {
				const lease = 300 * time.Millisecond
				s, client := newSession(t, at, relock.WithWatchdog(lease)), newClient(t, at)
				m, bystander := s.Mutex("lock"), s.Mutex("bystander")
				lock(t, background, m)
				lock(t, background, bystander)
				harm(t, client)
				if what == "flushed" {
					lostIn(t, soon, bystander)
				} else {
					require.NoError(t, bystander.Err(), "in the same batch, and unharmed")
				}
				lostIn(t, soon, m)
				require.ErrorIs(t, m.Unlock(background), relock.ErrLost)
				switch what {
				case "another's":
					require.Equal(t, map[string]string{"someone:1": "1"}, hashOf(t, client, "lock"))
				case "another type":
					text, err := client.Do(background, client.B().Get().Key("lock").Build()).ToString()
					require.NoError(t, err)
					require.Equal(t, "text", text)
				default:
					require.True(t, tryLock(t, background, m))
				}
				if what == "another's" || what == "another type" {
					ttl, err := client.Do(background, client.B().Pttl().Key("lock").Build()).AsInt64()
					require.NoError(t, err)
					require.Greater(t, ttl, int64(60_000), "nobody else's time to live changes")
				}
			})
		})
	}
}

// Before the watchdog has noticed, the unlock does.
func TestUnlockOfAHoldThatIsGoneIsALoss(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s, client := newSession(t, at), newClient(t, at)
		m := s.Mutex("lock")
		lock(t, background, m)
		require.NoError(t, client.Do(background, client.B().Del().Key("lock").Build()).Error())
		require.NoError(t, m.Err(), "not known yet")
		require.ErrorIs(t, m.Unlock(background), relock.ErrLost)
		require.ErrorIs(t, m.Unlock(background), relock.ErrNotHeld)
	})
}
