package test

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// "consul lock" killed the shell and left what it had started running (#2022, #873). The exit status is the
// command's own in case of loss, too.
func TestLossEndsTheCommand(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	operator := session(t, s)
	for name, c := range map[string]struct {
		flags, script string
		status        int
		says          string // after the loss
	}{
		"behind a shell": {"", `sh -c 'echo child $$; while :; do sleep 0.02; done'; echo survived`, 143, ""},
		"that ignores TERM, after the grace": {
			"--grace 500ms",
			`trap : TERM; sh -c 'trap "echo noticed" TERM; echo child $$; while :; do sleep 0.02; done' & while :; do wait; done`,
			137, "noticed",
		},
		"that cleans up": {"", `trap 'echo cleaned; exit 6' TERM; echo child $$; while :; do sleep 0.02; done`, 6, "cleaned"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, s, sh(c.flags, name, c.script)...)
			child := r.number("child")
			forced(t, operator, name)
			r.ends(c.status)
			r.warns("the lock is lost")
			r.says(c.says)
			require.False(t, alive(child), "the child lives on")
		})
	}
}

// A command whose host is cut off from Redis has ended when somebody else gets the lock. With
// "consul lock" both ran for 90 s (#9788).
func TestCutOffCommandEndsBeforeTheNextBegins(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for name, script := range map[string]string{
		"which ends when told": `sh -c 'echo child $$; while :; do sleep 0.02; done'; :`,
		"which must be killed": `trap "" TERM; sh -c 'echo child $$; while :; do sleep 0.02; done'; :`,
	} {
		for _, flags := range []string{"", "-s", "-x", "--fair"} {
			t.Run(name+flags, func(t *testing.T) {
				t.Parallel()
				lock := name + flags
				proxy := redistest.NewProxy(t, s.Addr())
				r := start(t, command(proxy.Addr(), sh("--lease 9s "+flags, lock, script)...))
				child := r.number("child")
				next := run(t, s, sh("-v -x", lock, fmt.Sprintf(`case $(cut -d " " -f 3 /proc/%d/stat) in ""|Z) echo alone;; *) echo overlap; esac`, child))...)
				next.warns("waiting")
				proxy.Blackhole(true)
				next.ends(0)
				require.Equal(t, "alone\n", next.out.String())
				<-r.ended
			})
		}
	}
}

// A job may not take longer than --max-hold, however long the lease is, and is told before.
func TestMaxHoldEndsTheCommand(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	r := run(t, s, sh("--lease 1h --max-hold 3s", "job", `trap 'exit 5' TERM; while :; do sleep 0.02; done`)...)
	r.ends(5)
	r.warns("ending the command")
}

// relock that is killed cannot end its command. The kernel and the guard do; and the lock is free
// within a lease, after which others waited for a minute (etcdctl #8365) or a day (cronlock #11).
func TestCommandEndsWhenRelockIsKilled(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	r := run(t, s, sh("--lease 3s", "job", `echo shell $$; sh -c 'echo child $$; while :; do sleep 0.02; done'; :`)...)
	shell, child := r.number("shell"), r.number("child")
	r.signal(syscall.SIGKILL)
	redistest.Eventually(t, soon, "its end", func() bool { return !alive(shell) && !alive(child) })
	locked(t, s, "job", false)
}

// A process that stands still for longer than its lease has lost the lock when it goes on.
func TestCommandEndsWhenRelockStoodStill(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	r := run(t, s, sh("--lease 2s", "job", `trap "" TERM; echo child $$; while :; do sleep 0.02; done`)...)
	child := r.number("child")
	r.signal(syscall.SIGSTOP)
	locked(t, s, "job", false)
	r.signal(syscall.SIGCONT)
	r.ends(137)
	require.False(t, alive(child), "the child lives on")
}

// A lock that is renewed in time does not end the command, also if the lease is short and the grace long.
func TestRenewedLockKeepsTheCommand(t *testing.T) {
	t.Parallel()
	run(t, redistest.Start(t), sh("--lease 3s --grace 1m", "job", "sleep 7")...).ends(0)
}
