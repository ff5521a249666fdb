package kit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// What is in Redis.

// Keys returns the keys in Redis except fencing tokens and labels of sessions, which stay for a while by design.
func Keys(t testing.TB, client rueidis.Client) []string {
	t.Helper()
	all, err := client.Do(Background, client.B().Keys().Pattern("*").Build()).AsStrSlice()
	require.NoError(t, err)
	var left []string
	for _, k := range all {
		switch prefix, _, _ := strings.Cut(k, ":"); prefix {
		case "relock_fence", "relock_session":
		default:
			left = append(left, k)
		}
	}
	return left
}

// Exists reports whether a key is there.
func Exists(t testing.TB, client rueidis.Client, key string) bool {
	t.Helper()
	n, err := client.Do(Background, client.B().Exists().Key(key).Build()).AsInt64()
	require.NoError(t, err)
	return n == 1
}

// GoneQuickly waits until a key is gone, for much less than a lease of 30 s.
func GoneQuickly(t testing.TB, client rueidis.Client, key string) {
	t.Helper()
	redistest.Eventually(t, Quickly, key+" to be released", func() bool { return !Exists(t, client, key) })
}

// Queued waits until n calls of Lock are queued in a session behind a holder or
// behind the one that asks Redis.
func Queued(t testing.TB, s *relock.Session, name string, n int) {
	t.Helper()
	redistest.Eventually(t, Soon, fmt.Sprintf("%d calls to be queued for %s", n, name), func() bool {
		return peek.Queued(s, name) == n
	})
}

// Waits waits until a call of a session waits for a lock.
func Waits(t testing.TB, s *relock.Session, name string) {
	t.Helper()
	redistest.Eventually(t, Soon, "somebody to wait for "+name, func() bool { return peek.Waits(s, name) })
}

// HashOf returns the fields of a hash.
func HashOf(t testing.TB, client rueidis.Client, key string) map[string]string {
	t.Helper()
	fields, err := client.Do(Background, client.B().Hgetall().Key(key).Build()).AsStrMap()
	require.NoError(t, err)
	return fields
}

// HoldersOf returns who holds a lock by what Redis knows.
func HoldersOf(t testing.TB, s *relock.Session, name string) []relock.Holder {
	t.Helper()
	state, err := s.Inspect(Background, name)
	require.NoError(t, err)
	return state.Holders
}
