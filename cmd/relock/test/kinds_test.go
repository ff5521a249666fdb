package test

import (
	"context"
	"os"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
)

// The locks are those of the library, and of Redisson: one kind excludes the other.
func TestLocksAreSharedWithTheLibrary(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := session(t, s)
	for _, flags := range []string{"", "-x", "-s", "--fair"} {
		name := "job" + flags
		cmd := command(s.Addr(), sh(flags, name, "echo ready; read line")...)
		in, err := cmd.StdinPipe()
		ok(t, err)
		r := start(t, cmd)
		r.says("ready")
		for _, l := range []relock.Locker{locker.Mutex(name), locker.FairMutex(name), locker.RWMutex(name)} {
			if ok, err := l.TryLock(context.Background()); ok || err != nil {
				t.Errorf("%s, %T: TryLock: %v, %v", flags, l, ok, err)
			}
		}
		_ = in.Close()
		r.ends(1)
		locked(t, s, name, false)
	}
}

func TestSharedLocksExcludeOthersOnly(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	cmd := command(s.Addr(), sh("-s", "goods", "echo ready; read line")...)
	in, err := cmd.StdinPipe()
	ok(t, err)
	first := start(t, cmd)
	first.says("ready")
	run(t, s, "run", "-n", "-s", "goods", "--", "true").ends(0)
	run(t, s, "run", "-n", "-x", "goods", "--", "true").ends(1)
	run(t, s, "run", "-n", "goods", "--", "true").ends(1)
	writer := run(t, s, "run", "-v", "-x", "goods", "--", "true")
	writer.warns("waiting")
	redistest.Eventually(t, soon, "readers that stand aside", func() bool {
		r := run(t, s, "run", "-q", "-n", "-s", "goods", "--", "true")
		<-r.ended
		return r.status == 1
	})
	_ = in.Close()
	first.ends(1)
	writer.ends(0)
}

// Who waits with --fair gets the lock in order of arrival.
func TestFairWaitersGoInOrder(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	release := hold(t, session(t, s).FairMutex("goods"))
	dir := t.TempDir()
	var all []*running
	for i, who := range []string{"a", "b", "c", "d"} {
		all = append(all, run(t, s, sh("--fair", "goods", "echo "+who+" >> "+dir+"/order")...))
		redistest.Eventually(t, soon, "a place in the queue", func() bool {
			return admin(t, s, "ZCARD", "relock_queue:{goods}") == int64(i+1)
		})
	}
	release()
	for _, r := range all {
		r.ends(0)
	}
	if order, err := os.ReadFile(dir + "/order"); string(order) != "a\nb\nc\nd\n" {
		t.Errorf("order %q, %v", order, err)
	}
}

// Whether the lock is taken nobody knows then.
func TestServerThatHangsIsNoConflict(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	ok(t, s.Freeze())
	run(t, s, "run", "-w", "1s", "-E", "75", "goods", "--", "true").ends(69)
}
