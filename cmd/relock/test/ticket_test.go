package test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

// Nobody reads what relock prints any more.
func TestTicketThatNobodyReadsFreesTheLock(t *testing.T) {
	s := server(t)
	others := kit.NewSession(t, s)
	cmd := command(s.Addr(), sh("--handoff=1h", "a", "exit 0")...)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	cmd.Stdout, cmd.Stderr = w, io.Discard
	var failed *exec.ExitError
	require.ErrorAs(t, cmd.Run(), &failed)
	require.Equal(t, 69, failed.ExitCode())
	require.NoError(t, others.Mutex("a", relock.WithWait(soon)).Lock(t.Context()))
}

// A ticket in the file stays until the next one is there.
func TestTicketFileIsKeptUntilThereIsATicket(t *testing.T) {
	s := server(t)
	file := filepath.Join(t.TempDir(), "ticket")
	run(t, s, "run", "--handoff=1h", "--ticket-file", file, "a", "--", "true").ends(0)
	before, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NotEmpty(t, before)
	run(t, s, "run", "-n", "--handoff=1h", "--ticket-file", file, "a", "--", "true").ends(1)
	after, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
	require.NoError(t, os.WriteFile(file, append(before, make([]byte, 100)...), 0o600))
	run(t, s, "run", "--adopt", strings.TrimSpace(string(before)), "--handoff", "--ticket-file", file, "--", "true").ends(0)
	run(t, s, "run", "--adopt", "@"+file, "--handoff", "--ticket-file", "/dev/null", "--", "true").ends(0)
	info, err := os.Stat("/dev/null")
	require.NoError(t, err)
	require.NotEqual(t, os.FileMode(0o600), info.Mode().Perm(), "a device is others' as well")
}

// The next command must not adopt by an earlier ticket: what became of that lock it does not know.
func TestTicketFileIsEmptyAfterACommandThatHandsNothingOff(t *testing.T) {
	s := server(t)
	for name, end := range map[string]struct {
		script string
		signal os.Signal
		status int
	}{
		"told":   {`trap "exit 0" TERM; echo ready; while :; do sleep 0.02; done`, syscall.SIGTERM, 0},
		"failed": {"echo ready; exit 3", nil, 3},
		"killed": {"echo ready; while :; do sleep 0.02; done", syscall.SIGKILL, 137},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "ticket")
			run(t, s, "run", "--handoff=1h", "--ticket-file", file, name+" before", "--", "true").ends(0)
			r := run(t, s, sh("--handoff=1h --ticket-file "+file, name, end.script)...)
			r.says("ready")
			if end.signal != nil {
				r.signal(end.signal)
			}
			r.ends(end.status)
			next := run(t, s, "run", "--adopt", "@"+file, "--", "echo", "adopted")
			require.Empty(t, next.ends(64))
			next.warns("is empty")
		})
	}
}

// Who does not want to wait for a server that hangs ends the handoff by a signal.
func TestSignalEndsAHandoff(t *testing.T) {
	s := server(t)
	end := filepath.Join(t.TempDir(), "end")
	cmd := command(s.Addr(), sh("--lease=10s --handoff=1h", "a", `echo pid $$; while ! [ -e "$END" ]; do sleep 0.02; done`)...)
	cmd.Env = append(cmd.Env, "END="+end)
	r := start(t, cmd)
	pid := r.number("pid")
	require.NoError(t, s.Freeze())
	require.NoError(t, os.WriteFile(end, nil, 0o600))
	redistest.Eventually(t, soon, "the end of the command", func() bool { return syscall.Kill(pid, 0) != nil })
	time.Sleep(500 * time.Millisecond) // until relock waits for Redis; later is too late for a command that was told to end
	r.signal(syscall.SIGTERM)
	r.ends(69)
	r.warns("context canceled")
	require.NoError(t, s.Thaw())
	require.NoError(t, kit.NewSession(t, s).Mutex("a", relock.WithWait(soon)).Lock(t.Context()))
}

// Told to end at any moment, relock run leaves a ticket with which the lock can be had, or a free lock.
func TestHandoffThatIsToldToEndLeavesATicketOrAFreeLock(t *testing.T) {
	s := server(t)
	others := kit.NewSession(t, s)
	tickets := 0
	for i := range 40 {
		name := fmt.Sprint("a", i)
		cmd := command(s.Addr(), sh("--handoff=1h", name, "exit 0")...)
		var out bytes.Buffer
		cmd.Stdout = &out
		require.NoError(t, cmd.Start())
		time.Sleep(time.Duration(i) * 5 * time.Millisecond) // the moment
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if ticket := strings.TrimSpace(out.String()); ticket != "" {
			tickets++
			hold, err := others.Adopt(t.Context(), ticket)
			require.NoError(t, err)
			require.NoError(t, hold.Unlock(t.Context()))
		}
		require.NoError(t, others.Mutex(name, relock.WithWait(soon)).Lock(t.Context()))
	}
	t.Log(tickets)
}
