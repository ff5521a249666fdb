package locks_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// lostIn waits until m is lost, and looks at all that tells of it.
func lostIn(t testing.TB, within time.Duration, m kit.FencedLocker) {
	t.Helper()
	done := m.Done()
	redistest.Eventually(t, within, "Done to be closed", func() bool { return kit.IsClosed(done) })
	require.ErrorIs(t, m.Err(), relock.ErrLost)
	_, certain := m.Deadline()
	require.False(t, certain)
	require.NotZero(t, m.FencingToken(), "a token to compare with stays after a loss")
}

// The watchdog would notice in ten seconds.
func TestForceUnlockNotifiesTheHolderAtOnce(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, other := kit.NewSession(t, at), kit.NewSession(t, at)
		for _, by := range []*relock.Session{other, s} {
			m := s.Mutex("lock")
			kit.Lock(t, kit.Background, m)
			was, err := by.ForceUnlock(kit.Background, "lock")
			require.NoError(t, err)
			require.True(t, was)
			require.True(t, kit.TryLock(t, kit.Background, other.Mutex("lock")), "the lock is free whether the holder knows or not")
			lostIn(t, kit.Quickly, m)
			require.ErrorIs(t, m.Unlock(kit.Background), relock.ErrLost)
			require.ErrorIs(t, m.Unlock(kit.Background), relock.ErrNotHeld)
			require.Len(t, kit.HoldersOf(t, s, "lock"), 1, "the next one's hold stays")
			require.Equal(t, other.ID(), kit.HoldersOf(t, s, "lock")[0].Session)
			_, err = by.ForceUnlock(kit.Background, "lock")
			require.NoError(t, err)
		}
	})
}

func TestForceUnlockOfAFreeLockIsFalse(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		was, err := kit.NewSession(t, at).ForceUnlock(kit.Background, "lock")
		require.NoError(t, err)
		require.False(t, was)
	})
}

// A message about a hold that is over must not end the one after it.
func TestForceUnlockEndsOnlyTheHoldThatItFound(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, client := kit.NewSession(t, at), kit.NewClient(t, at)
		m := s.Mutex("lock")
		kit.Lock(t, kit.Background, m)
		old := kit.HoldersOf(t, s, "lock")[0].ID
		kit.Unlock(t, kit.Background, m)
		kit.Lock(t, kit.Background, m)
		tell := func(message string) {
			b := client.B().Publish().Channel("relock_session:" + s.ID()).Message(message).Build()
			require.NoError(t, client.Do(kit.Background, b).Error())
		}
		tell("lost " + old + " lock")
		for _, nonsense := range []string{"", "lost", "lost ", "lost lock", "0", "lost " + old + "0 other"} {
			tell(nonsense)
		}
		forced := s.Mutex("marker") // its loss says that the messages before have arrived
		kit.Lock(t, kit.Background, forced)
		forceUnlock(t, s, forced)
		require.NoError(t, m.Err())
		kit.Unlock(t, kit.Background, m)
	})
}

// Whatever somebody does to the key behind the holder's back, the next renewal
// finds out, and touches nothing that is not the holder's.
func TestAHoldThatIsGoneIsLostAtTheNextRenewal(t *testing.T) {
	do := func(t *testing.T, c rueidis.Client, args ...string) {
		require.NoError(t, c.Do(kit.Background, c.B().Arbitrary(args...).Build()).Error())
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
			kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
				const lease = 300 * time.Millisecond
				s, client := kit.NewSession(t, at, relock.WithLease(lease)), kit.NewClient(t, at)
				m, bystander := s.Mutex("lock"), s.Mutex("bystander")
				kit.Lock(t, kit.Background, m)
				kit.Lock(t, kit.Background, bystander)
				harm(t, client)
				if what == "flushed" {
					lostIn(t, kit.Soon, bystander)
				} else {
					require.NoError(t, bystander.Err(), "in the same batch, and unharmed")
				}
				lostIn(t, kit.Soon, m)
				require.ErrorIs(t, m.Unlock(kit.Background), relock.ErrLost)
				switch what {
				case "another's":
					require.Equal(t, map[string]string{"someone:1": "1"}, kit.HashOf(t, client, "lock"))
				case "another type":
					text, err := client.Do(kit.Background, client.B().Get().Key("lock").Build()).ToString()
					require.NoError(t, err)
					require.Equal(t, "text", text)
				default:
					require.True(t, kit.TryLock(t, kit.Background, m))
				}
				if what == "another's" || what == "another type" {
					ttl, err := client.Do(kit.Background, client.B().Pttl().Key("lock").Build()).AsInt64()
					require.NoError(t, err)
					require.Greater(t, ttl, int64(60_000), "nobody else's time to live changes")
				}
			})
		})
	}
}

// Before the watchdog has noticed, the unlock does.
func TestUnlockOfAHoldThatIsGoneIsALoss(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, client := kit.NewSession(t, at), kit.NewClient(t, at)
		m := s.Mutex("lock")
		kit.Lock(t, kit.Background, m)
		require.NoError(t, client.Do(kit.Background, client.B().Del().Key("lock").Build()).Error())
		require.NoError(t, m.Err(), "not known yet")
		require.ErrorIs(t, m.Unlock(kit.Background), relock.ErrLost)
		require.ErrorIs(t, m.Unlock(kit.Background), relock.ErrNotHeld)
	})
}
