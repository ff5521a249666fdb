package locks_test

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

// eachExclusive does so for those of which only one holds it at a time.
func eachExclusive(t *testing.T, f func(t *testing.T, k *kit.LockKind)) {
	t.Helper()
	t.Parallel()
	for _, k := range kit.LockKinds {
		if k.Exclusive() {
			t.Run(k.Name, func(t *testing.T) {
				t.Parallel()
				f(t, k)
			})
		}
	}
}

// nothingLeft waits until nothing of any lock is left in Redis but tokens.
func nothingLeft(t testing.TB, client rueidis.Client) {
	t.Helper()
	redistest.Eventually(t, kit.Quickly, "everything to be released", func() bool {
		for _, key := range kit.Keys(t, client) {
			if key != "count" {
				return false
			}
		}
		return true
	})
}
