package wire

import (
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Redisson's turns come by count of releases: seldom if it does not come, often once it has come.
func TestRedissonsTurnsComeByCountOfReleases(t *testing.T) {
	t.Parallel()
	for kind, channel := range map[Kind]string{Plain: plainChannel, Write: rwChannel} {
		r := newRig(t)
		r.listen(channel)
		n := 0
		releases := func() (until int) { // Redisson's turn
			for {
				n, until = n+1, until+1
				redistest.Eventually(t, time.Minute, "the end of the turn", func() bool {
					return strings.HasPrefix(tries(kind, n)(r), "granted")
				})
				ends(kind, n)(r)
				if strings.HasPrefix(r.text("GET", yieldKey), "left ") {
					return until
				}
			}
		}
		require.Equal(t, []int{1, 16, 32}, []int{releases(), releases(), releases()}, "it listens, and does not come")
		redissonHas(r)
		require.Equal(t, "taken", tries(kind, n)(r))
		r.must("DEL", "a")
		require.Equal(t, 8, releases(), "it has come")

		r.yields("left", time.Hour) // the clock has stepped back
		require.Contains(t, tries(kind, n+1)(r), "granted")
	}
}

// Garbage in the key of whose turn it is, and a key of another type, refuse the lock to nobody.
func TestReservationBesideADamagedKey(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		for _, text := range []string{
			"back", "back ", "back 99999999999999", "back -1", "back 1 0 0", "back 1e9", "\x00", "left 0 0 0", "ours 1 0 0",
			"wat 5", "hash",
		} {
			r.must("FLUSHALL")
			if text == "hash" {
				r.must("HSET", yieldKey, "a", "b")
			} else {
				r.must("SET", yieldKey, text)
			}
			for range 12 {
				require.Contains(t, asks(Fair, 1)(r), "granted", "beside %q", text)
				ends(Fair, 1)(r)
			}
		}
	})
}

// The queue is that of waiters who may all have died.
func TestQueueExpiresWhileLeftToRedisson(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.present(plainChannel, rwChannel)
		for _, k := range []Kind{Plain, Write} {
			r.must("FLUSHALL")
			has(k, 1)(r)
			wants(k, 2)(r)
			ends(k, 1)(r)
			require.Zero(t, r.int("EXISTS", "a"), "the lock is not left to Redisson")
			r.mustNear("the queue", r.pttl(r.lease(k, 1).Keys.aux), 15*time.Second)
		}
	})
}

// Redisson may be on its way back: waiters leave it time, and who does not wait has no second chance.
func TestReservedLockIsRefusedToWaitersAlone(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		for _, k := range kinds {
			r.must("FLUSHALL")
			patient(r)
			require.Equal(t, "taken", asks(k, 1)(r), k)
			r.must("FLUSHALL")
			patient(r)
			require.NotEqual(t, "taken", tries(k, 2)(r), k)
		}
	})
}
