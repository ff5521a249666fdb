package test

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// "consul lock" killed the shell and left what it had started running (#2022, #873). The exit status is the
// command's own in case of loss, too.
func TestLossEndsTheCommand(t *testing.T) {
	s := server(t)
	for name, c := range map[string]struct {
		flags, script string
		status        int
		says          string // after the loss
	}{
		"behind a shell": {"", `sh -c 'echo child $$; while :; do sleep 0.02; done'; echo survived`, 143, ""},
		"that ignores TERM, after the grace": {
			"--grace 3s",
			`trap : TERM; sh -c 'trap "echo noticed" TERM; echo child $$; while :; do sleep 0.02; done' & while :; do wait; done`,
			137, "noticed",
		},
		"that cleans up": {"", `trap 'echo cleaned; exit 6' TERM; echo child $$; while :; do sleep 0.02; done`, 6, "cleaned"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, s, sh(c.flags, name, c.script)...)
			child := r.number("child")
			run(t, s, "unlock", "--yes", name).ends(0)
			r.ends(c.status)
			r.warns("the lock is lost")
			r.says(c.says)
			require.False(t, alive(child), "the child lives on")
		})
	}
}

// A command that catches TERM and exits with 0 makes a pipeline green after a loss: with
// --lost-exit-code it does not, whatever its status, and however relock finds out.
func TestLossHasAnExitStatusOfItsOwn(t *testing.T) {
	const (
		green = `trap 'exit 0' TERM; echo ready; while :; do sleep 0.02; done`
		red   = `trap 'exit 6' TERM; echo ready; while :; do sleep 0.02; done`
		falls = `echo ready; exec sleep 1000`
	)
	forced := func(t *testing.T, s *redistest.Server, r *running) {
		run(t, s, "unlock", "--yes", "job").ends(0)
	}
	silent := func(t *testing.T, s *redistest.Server, r *running) { require.NoError(t, s.Freeze()) }
	still := func(t *testing.T, s *redistest.Server, r *running) {
		r.signal(syscall.SIGSTOP)
		locked(t, s, "job", false)
		r.signal(syscall.SIGCONT)
	}
	wanted := func(t *testing.T, s *redistest.Server, r *running) { run(t, s, "run", "job", "--", "true").ends(0) }
	over := func(t *testing.T, s *redistest.Server, r *running) {} // --max-hold is
	for name, c := range map[string]struct {
		flags, script string
		status        int
		loses         func(t *testing.T, s *redistest.Server, r *running)
		says          string
	}{
		"without the flag":      {"", green, 0, forced, "the lock is lost"},
		"green":                 {"--lost-exit-code 9", green, 9, forced, "the lock is lost"},
		"of another status":     {"--lost-exit-code 255", red, 255, forced, "the lock is lost"},
		"killed by TERM":        {"--lost-exit-code 1", falls, 1, forced, "the lock is lost"},
		"that is to hand it on": {"--handoff --lost-exit-code 9", green, 9, forced, "the lock is lost"},
		"Redis does not answer": {"--lease 3s --lost-exit-code 9", green, 9, silent, "the lock is "}, // valid for …, or lost
		"relock stood still":    {"--lease 2s --lost-exit-code 9", green, 9, still, "the lock is lost"},
		"yielding is no loss":   {"--yield --lost-exit-code 9", red, 6, wanted, "somebody else wants the lock"},
		"nor is --max-hold":     {"--max-hold 2s --lost-exit-code 9", red, 6, over, "--max-hold is over"},
	} {
		t.Run(name, func(t *testing.T) {
			s := server(t)
			r := run(t, s, sh(c.flags, "job", c.script)...)
			r.says("ready")
			c.loses(t, s, r)
			require.Equal(t, "ready\n", r.ends(c.status), "a ticket")
			r.warns(c.says)
		})
	}
}

// A loss of which no renewal could tell is found by the release, and told.
func TestLossThatTheReleaseFindsIsTold(t *testing.T) {
	s := server(t)
	for flags, status := range map[string]int{"": 0, "--lost-exit-code 9": 9, "--handoff": 69, "--handoff --lost-exit-code 9": 9} {
		cmd := command(s.Addr(), sh("--lease 1h "+flags, "job"+flags, "echo ready; read line; exit 0")...)
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		r := start(t, cmd)
		r.says("ready")
		admin(t, s, "DEL", "job"+flags)
		require.NoError(t, in.Close())
		require.Equal(t, "ready\n", r.ends(status), "a ticket")
		require.Contains(t, r.err.String(), "not in Redis any more")
		require.Equal(t, 1, strings.Count(r.err.String(), "\n"), &r.err)
	}
}

// A command whose host is cut off from Redis has ended when somebody else gets the lock. With
// "consul lock" both ran for 90 s (#9788).
func TestCutOffCommandEndsBeforeTheNextBegins(t *testing.T) {
	s := server(t)
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
				require.Equal(t, "alone\n", next.ends(0))
				<-r.ended
			})
		}
	}
}

// A job may not take longer than --max-hold, however long the lease is, and is told before.
func TestMaxHoldEndsTheCommand(t *testing.T) {
	s := server(t)
	r := run(t, s, sh("--lease 1h --max-hold 3s", "job", `trap 'exit 5' TERM; while :; do sleep 0.02; done`)...)
	r.ends(5)
	r.warns("ending the command")
}

// A job that can stop early does so when somebody else waits, and has the lock until it has stopped.
func TestYieldEndsTheCommandWhenTheLockIsWanted(t *testing.T) {
	s := server(t)
	r := run(t, s, sh("--yield", "job", `trap 'echo stops; sleep 0.2; exit 7' TERM; echo child $$; while :; do sleep 0.02; done`)...)
	child := r.number("child")
	next := run(t, s, sh("", "job", fmt.Sprintf(`case $(cut -d " " -f 3 /proc/%d/stat) in ""|Z) echo alone;; *) echo overlap; esac`, child))...)
	require.Equal(t, "alone\n", next.ends(0))
	r.ends(7)
	r.says("stops")
	r.warns("somebody else wants the lock")
	run(t, s, sh("--yield -s", "job", "exit 0")...).ends(64)
}

// relock that is killed cannot end its command. The kernel and the guard do; and the lock is free
// within a lease, after which others waited for a minute (etcdctl #8365) or a day (cronlock #11).
func TestCommandEndsWhenRelockIsKilled(t *testing.T) {
	s := server(t)
	r := run(t, s, sh("--lease 3s", "job", `echo shell $$; sh -c 'echo child $$; while :; do sleep 0.02; done'; :`)...)
	shell, child := r.number("shell"), r.number("child")
	r.signal(syscall.SIGKILL)
	redistest.Eventually(t, soon, "its end", func() bool { return !alive(shell) && !alive(child) })
	locked(t, s, "job", false)
}

// A process that stands still for longer than its lease has lost the lock when it goes on.
func TestCommandEndsWhenRelockStoodStill(t *testing.T) {
	s := server(t)
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
	run(t, redistest.Start(t), sh("--lease 5s --grace 1m", "job", "sleep 11")...).ends(0)
}

var passedOn = map[string]syscall.Signal{
	"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT,
}

// trap is a script that exits with 9 on a signal, after what it has started has noticed the
// signal too.
const trap = `
	trap 'echo above; exit 9' %[1]s
	sh -c 'trap "echo below; exit" %[1]s; echo ready; while :; do sleep 0.02; done'
	while :; do sleep 0.02; done`

// "consul lock" passed TERM on and no other signal, and only to a shell: its commands lived on without the lock
// (#2489, #797, #3754). It discarded signals until it had the lock (#4439).
func TestSignalsReachTheWholeGroupAndEndWaits(t *testing.T) {
	s := server(t)
	for name, sig := range passedOn {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lock := "job " + name
			r := run(t, s, sh("", lock, fmt.Sprintf(trap, name))...)
			r.says("ready")
			waiter := run(t, s, "run", "-v", lock, "--", "echo", "ran")
			waiter.warns("waiting")
			waiter.signal(sig)
			require.Empty(t, waiter.ends(128+int(sig)), "the command ran")
			r.signal(sig)
			require.Regexp(t, "(?s)below.*above", r.ends(9))
			locked(t, s, lock, false)
		})
	}
}

// A signal waits for as long as a command is stopped, and the lock would be lost without its hearing it.
func TestStoppedCommandGoesOnToEnd(t *testing.T) {
	s := server(t)
	for name, end := range map[string]func(r *running){
		"signal": func(r *running) { r.signal(syscall.SIGTERM) },
		"loss":   func(*running) { run(t, s, "unlock", "--yes", "job loss").ends(0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, s, sh("--grace 30s", "job "+name,
				`trap 'exit 9' TERM; echo pid $$; kill -STOP $$; while :; do sleep 0.02; done`)...)
			pid := r.number("pid")
			redistest.Eventually(t, soon, "the stop", func() bool { return status(pid, "State") == "T" })
			end(r)
			r.ends(9)
		})
	}
}

// A server that accepts and never answers must not keep anybody from giving up. Whether the lock is taken nobody knows then.
func TestHungServerIsNoConflictAndSignalsEndIt(t *testing.T) {
	s := server(t)
	require.NoError(t, s.Freeze())
	run(t, s, "run", "-w", "1s", "-E", "75", "job", "--", "true").ends(69)
	r := run(t, s, "run", "job", "--", "echo", "ran")
	redistest.Eventually(t, soon, "its handling of signals", func() bool {
		caught, _ := strconv.ParseUint(status(r.cmd.Process.Pid, "SigCgt"), 16, 64)
		return caught&(1<<(syscall.SIGTERM-1)) != 0
	})
	r.signal(syscall.SIGTERM)
	r.ends(143)
}

// nohup ignores HUP for the command, too.
func TestIgnoredSignalsStayIgnored(t *testing.T) {
	s := server(t)
	cmd := exec.Command("sh", "-c", `trap "" HUP; exec "$0" run job -- sh -c 'echo pid $$; while :; do sleep 0.02; done'`, program)
	cmd.Env = append(cmd.Environ(), "RELOCK_REDIS="+s.Addr())
	r := start(t, cmd)
	pid := r.number("pid")
	r.signal(syscall.SIGHUP)
	require.NoError(t, syscall.Kill(pid, syscall.SIGHUP))
	r.signal(syscall.SIGTERM)
	r.ends(143)
}

// What a command leaves in the background by itself goes on; the lock is for the command.
func TestLockDoesNotWaitForDaemons(t *testing.T) {
	s := server(t)
	r := run(t, s, sh("", "job", `sh -c 'echo pid $$; sleep 100' >&2 2>/dev/null & echo daemon $!`)...)
	r.ends(0)
	pid := r.number("daemon")
	defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
	locked(t, s, "job", false)
	require.True(t, alive(pid), "it was killed")
}
