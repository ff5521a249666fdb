package topology_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// The acquisition went through, and then Redis refused to wait for replicas. Lock
// reported the error and left the lock held until its lease ended, because Redis had
// answered.
func TestLockThatMayNotWaitForReplicasIsUndone(t *testing.T) {
	t.Parallel()
	at, _ := redistest.StartReplicas(t, 1)
	admin := kit.NewClient(t, at)
	require.NoError(t, admin.Do(kit.Background, admin.B().Arbitrary(
		"ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all").Build()).Error())
	client := kit.NewClient(t, at, func(o *rueidis.ClientOption) { o.Username, o.Password = "app", "secret" })
	s := kit.SessionOn(t, client, relock.WithReplicas(1, 100*time.Millisecond))
	require.NoError(t, admin.Do(kit.Background, admin.B().Arbitrary("ACL", "SETUSER", "app", "-wait").Build()).Error())
	for name, l := range map[string]relock.Locker{
		"mutex": s.Mutex("mutex"), "fair": s.FairMutex("fair"), "rw": s.RWMutex("rw"), "read": s.RWMutex("read").RLocker(),
	} {
		require.ErrorContains(t, l.Lock(kit.Background), "NOPERM", name)
		kit.GoneQuickly(t, admin, name)
	}
}
