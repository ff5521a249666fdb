package relock_test

import (
	"testing"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A process with Redisson 3.x that holds several read locks renews the rwlock_timeout
// keys of one of them only: a writer took the live readers of the others for dead.
func TestWriterWaitsForReadersWhoseTimeoutKeysAreGone(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := newClient(t, server)
	rw := newSession(t, server).RWMutex("lock")
	order(t, client, "HSET", "lock", "mode", "read", redissonsWaiter, "1")
	order(t, client, "PEXPIRE", "lock", "60000")
	require.False(t, tryLock(t, background, rw))
	require.True(t, exists(t, client, "lock"))
	order(t, client, "PEXPIRE", "lock", "1")
	lock(t, background, rw)
	unlock(t, background, rw)
}
