package faults_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A primary that could not save refuses to write, by default, until a snapshot succeeds. Calls that
// wait were ended with that error.
func TestLocksRideOutThatRedisCannotSave(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := redistest.Start(t, "--save", "3600 1000000", "--dir", dir, "--dbfilename", "dump.rdb")
	before := kit.NewSession(t, s)
	held := before.Mutex("held")
	kit.Lock(t, kit.Background, held)

	inTheWay := filepath.Join(dir, "dump.rdb")
	require.NoError(t, os.MkdirAll(filepath.Join(inTheWay, "full"), 0o700))
	snapshot := func(status string) {
		redistest.Eventually(t, kit.Soon, "a snapshot to be "+status, func() bool {
			_, _ = s.Do("BGSAVE")
			return s.Info("persistence")["rdb_last_bgsave_status"] == status
		})
	}
	snapshot("err")
	_, err := s.Do("SET", "a", "1")
	require.ErrorContains(t, err, "MISCONF")

	_, err = before.Mutex("a").TryLock(kit.Background)
	require.ErrorContains(t, err, "MISCONF", "a call that does not wait says it")
	ctx, cancel := context.WithTimeout(kit.Background, 100*time.Millisecond)
	defer cancel()
	err = before.Mutex("b").Lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "MISCONF", "so does one whose time is over")
	waiting := before.Mutex("c")
	got := kit.Async(func() error { return waiting.Lock(kit.Background) })
	during := kit.NewSession(t, s)
	m := during.Mutex("d")
	gotToo := kit.Async(func() error { return m.Lock(kit.Background) })
	unlocked := kit.Async(func() error { return held.Unlock(kit.Background) })
	time.Sleep(300 * time.Millisecond)
	require.Empty(t, got)
	require.Empty(t, gotToo)

	require.NoError(t, os.RemoveAll(inTheWay))
	snapshot("ok")
	require.NoError(t, kit.Receive(t, got, "the waiter to get in"))
	require.NoError(t, kit.Receive(t, gotToo, "that of the session which began meanwhile"))
	require.NoError(t, kit.Receive(t, unlocked, "the unlock"))
	kit.Unlock(t, kit.Background, waiting)
	kit.Unlock(t, kit.Background, m)
	kit.GoneQuickly(t, s.Client(t), "held")
}
