package locks_test

import (
	"testing"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A process with Redisson 3.x that holds several read locks renews the rwlock_timeout
// keys of one of them only: a writer took the live readers of the others for dead.
func TestWriterWaitsForReadersWhoseTimeoutKeysAreGone(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := kit.NewClient(t, server)
	rw := kit.NewSession(t, server).RWMutex("lock")
	order(t, client, "HSET", "lock", "mode", "read", redissonsWaiter, "1")
	order(t, client, "PEXPIRE", "lock", "60000")
	require.False(t, kit.TryLock(t, kit.Background, rw))
	require.True(t, kit.Exists(t, client, "lock"))
	order(t, client, "PEXPIRE", "lock", "1")
	kit.Lock(t, kit.Background, rw)
	kit.Unlock(t, kit.Background, rw)
}
