package locks_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// What Redisson and relock have in Redis, as State tells it, and open for ForceUnlock.
func TestInspectAndForceUnlockOfEveryKind(t *testing.T) {
	const uuid, other = "4f1b9a52-8d9e-4c55-9d0c-000000000001", "4f1b9a52-8d9e-4c55-9d0c-000000000002"
	holder := func(session, id string, count int) relock.Holder {
		return relock.Holder{ID: session + id, Session: session, Count: count}
	}
	cases := map[string]struct {
		hash    []string // fields and values
		expires bool
		mode    relock.Mode
		holders []relock.Holder
	}{
		"free": {},
		"held by a thread of Redisson": {
			[]string{uuid + ":57", "3"}, true, relock.Exclusive, []relock.Holder{holder(uuid, ":57", 3)},
		},
		"without expiry": {[]string{uuid + ":1", "1"}, false, relock.Exclusive, []relock.Holder{holder(uuid, ":1", 1)}},
		"read": {
			[]string{"mode", "read", other + ":2", "1", uuid + ":1", "2"}, true,
			relock.Shared, []relock.Holder{holder(uuid, ":1", 2), holder(other, ":2", 1)},
		},
		"written": {
			[]string{"mode", "write", uuid + ":1:write", "2"}, true, relock.Exclusive, []relock.Holder{holder(uuid, ":1", 2)},
		},
		"written and read by the same": {
			[]string{"mode", "write", uuid + ":1:write", "2", uuid + ":1", "1"}, true,
			relock.Exclusive, []relock.Holder{holder(uuid, ":1", 3)},
		},
	}
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, client := kit.NewSession(t, at), kit.NewClient(t, at)
		for what, c := range cases {
			if c.hash != nil {
				order(t, client, append([]string{"HSET", "lock"}, c.hash...)...)
			}
			if c.expires {
				order(t, client, "PEXPIRE", "lock", "60000")
			}
			before := kit.HashOf(t, client, "lock")
			got := inspect(t, s, "lock")
			switch {
			case c.hash == nil:
				require.Zero(t, got.TTL, what)
			case !c.expires:
				require.Negative(t, got.TTL, what)
			default:
				require.InDelta(t, time.Minute, got.TTL, float64(20*time.Second), what)
			}
			got.TTL = 0
			require.Equal(t, relock.State{Mode: c.mode, Holders: c.holders}, got, what)
			require.Equal(t, before, kit.HashOf(t, client, "lock"), "it changes nothing")
			was, err := s.ForceUnlock(kit.Background, "lock")
			require.NoError(t, err, what)
			require.Equal(t, c.hash != nil, was, what)
			require.Empty(t, kit.Keys(t, client), what)
		}
	})
}

// A lock that has changed hands since an operator looked at it stays as it is, and that is not an
// outage.
func TestForceUnlockOfOtherHoldersIsTaken(t *testing.T) {
	t.Parallel()
	s := kit.NewSession(t, redistest.Start(t))
	m := s.Mutex("a")
	require.NoError(t, m.Lock(kit.Background))
	opened, err := s.ForceUnlockHolders(kit.Background, "a", "somebody-else:1")
	require.False(t, opened)
	require.ErrorIs(t, err, relock.ErrTaken)
	require.NotErrorIs(t, err, relock.ErrUnavailable)
	require.NoError(t, m.Unlock(kit.Background))
}

// A writer that reads as well has one token, and State knows it.
func TestInspectOfAWriterThatReads(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s := kit.NewSession(t, at)
		m, owner := s.RWMutex("lock", relock.WithNote("order 7")), s.NewContext(kit.Background)
		w, err := m.Acquire(owner)
		require.NoError(t, err)
		r, err := m.RAcquire(owner)
		require.NoError(t, err)
		st := inspect(t, s, "lock")
		require.Equal(t, relock.Exclusive, st.Mode)
		require.Equal(t, w.Token(), st.Token)
		require.Equal(t, "order 7", st.Note)
		require.Less(t, st.Age, time.Minute)
		require.NoError(t, w.Unlock(owner))
		require.Zero(t, inspect(t, s, "lock").Token, "readers have none")
		require.NoError(t, r.Unlock(owner))
	})
}

// A hash of the application has a field like a hold id among others. It is not a lock, and stays.
func TestForceUnlockKeepsWhatIsNotALock(t *testing.T) {
	server := redistest.Start(t)
	client, s := server.Client(t), kit.NewSession(t, server)
	hash := []string{"3f2504e0-4f89-41d3-9a0c-0305e82c3301:42", "3", "owner", "alice", "total", "17.30"}
	require.NoError(t, client.Do(kit.Background, client.B().Arbitrary("HSET", "cart").Args(hash...).Build()).Error())
	opened, err := s.ForceUnlock(kit.Background, "cart")
	require.ErrorIs(t, err, relock.ErrNotLock)
	require.False(t, opened)
	fields, err := client.Do(kit.Background, client.B().Hlen().Key("cart").Build()).AsInt64()
	require.NoError(t, err)
	require.EqualValues(t, 3, fields)
}
