package test

import (
	"fmt"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

var passedOn = map[string]syscall.Signal{
	"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT,
}

// trap is a script that exits with 9 on a signal, after what it has started has noticed the
// signal too.
const trap = `
	trap 'echo above; exit 9' %[1]s
	sh -c 'trap "echo below; exit" %[1]s; echo ready; while :; do sleep 0.02; done'
	while :; do sleep 0.02; done`

// "consul lock" passed TERM on and no other signal, and only to a shell: its commands lived on
// without the lock (#2489, #797, #3754).
func TestSignalsReachTheWholeGroup(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for name, sig := range passedOn {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lock := "job " + name
			r := run(t, s, sh("", lock, fmt.Sprintf(trap, name))...)
			r.says("ready")
			r.signal(sig)
			r.ends(9)
			require.Contains(t, r.out.String(), "below")
			require.Contains(t, r.out.String(), "above")
			locked(t, s, lock, false)
		})
	}
}

// A signal waits for as long as a command is stopped, and the lock would be lost without its hearing it.
func TestStoppedCommandGoesOnToEnd(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	operator := session(t, s)
	for name, end := range map[string]func(r *running){
		"signal": func(r *running) { r.signal(syscall.SIGTERM) },
		"loss":   func(*running) { forced(t, operator, "job loss") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, s, sh("--grace 30s", "job "+name,
				`trap 'exit 9' TERM; echo pid $$; kill -STOP $$; while :; do sleep 0.02; done`)...)
			pid := r.number("pid")
			redistest.Eventually(t, soon, "the stop", func() bool { state, _ := stateOf(pid); return state == "T" })
			end(r)
			r.ends(9)
		})
	}
}

// "consul lock" discarded signals until it had the lock (#4439).
func TestSignalsEndTheWait(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := session(t, s)
	for name, sig := range passedOn {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := locker.Mutex("taken " + name)
			release := hold(t, m)
			r := run(t, s, "run", "-v", m.Name(), "--", "echo", "ran")
			r.warns("waiting")
			r.signal(sig)
			r.ends(128 + int(sig))
			release()
			require.Empty(t, r.out.String(), "the command ran")
			locked(t, s, m.Name(), false)
		})
	}
}

// A server that accepts and never answers must not keep anybody from giving up.
func TestSignalsEndTheWaitForAHungServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	require.NoError(t, s.Freeze())
	r := run(t, s, "run", "job", "--", "echo", "ran")
	redistest.Eventually(t, soon, "its handling of signals", func() bool { return catches(r.cmd.Process.Pid, syscall.SIGTERM) })
	r.signal(syscall.SIGTERM)
	r.ends(143)
}

// nohup ignores HUP for the command, too.
func TestIgnoredSignalsStayIgnored(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
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
	t.Parallel()
	s := redistest.Start(t)
	r := run(t, s, sh("", "job", `sh -c 'echo pid $$; sleep 100' >&2 2>/dev/null & echo daemon $!`)...)
	r.ends(0)
	pid := r.number("daemon")
	defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
	locked(t, s, "job", false)
	require.True(t, alive(pid), "it was killed")
}
