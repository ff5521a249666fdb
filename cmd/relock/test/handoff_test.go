package test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

// handsOff runs a script under a lock, which it hands off, and returns the ticket.
func handsOff(t *testing.T, s *redistest.Server, name, script string) string {
	t.Helper()
	ticket := regexp.MustCompile(`(?m)^relock_ticket_\S+$`).FindString(run(t, s, sh("--handoff=1h", name, script)...).ends(0))
	require.NotEmpty(t, ticket)
	return ticket
}

// One command begins what another ends, and nobody gets the lock in between; the ticket is printed, or in a file, and
// given as an argument, in a file, or in the environment, where the command does not see it.
func TestLockGoesFromCommandToCommand(t *testing.T) {
	s := server(t)
	file := filepath.Join(t.TempDir(), "ticket")
	others := kit.NewSession(t, s).Mutex("a")
	free := func() bool {
		ok, err := others.TryLock(t.Context())
		require.NoError(t, err)
		if ok {
			require.NoError(t, others.Unlock(t.Context()))
		}
		return ok
	}
	const shows = `echo $RELOCK_NAME $RELOCK_TOKEN "<$RELOCK_TICKET>"`
	ticket := handsOff(t, s, "a", shows)
	require.False(t, free())
	require.Contains(t, run(t, s, "inspect", "a").ends(0), "a")
	got := run(t, s, "run", "-v", "--adopt", ticket, "--handoff=1h", "--ticket-file", file, "--", "sh", "-c", shows)
	require.Regexp(t, `^a \d+ <>\n$`, got.ends(0), "the ticket is in the file alone")
	got.warns("is handed off, for 1h")
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	require.False(t, free())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	cmd := command(s.Addr(), "run", "--adopt", "env", "--handoff", "--", "sh", "-c", shows)
	cmd.Env = append(cmd.Env, "RELOCK_TICKET="+string(text))
	env := start(t, cmd).ends(0)
	require.Regexp(t, `^a \d+ <>\nrelock_ticket_\S+\n$`, env)
	require.NoError(t, os.WriteFile(file, []byte(strings.Split(env, "\n")[1]+"\n"), 0o600))
	require.False(t, free())
	run(t, s, "run", "--adopt", "@"+file, "--", "true").ends(0)
	require.True(t, free())
	for _, why := range []string{"-E1", "-E7"} {
		used := run(t, s, "run", why, "--adopt", "@"+file, "--", "echo", "never")
		require.Empty(t, used.ends(int(why[2]-'0')))
		used.warns("the ticket was used before")
		require.NotContains(t, used.err.String(), "relock_ticket_")
	}
}

// A command that fails, or is told to end, has its lock released, and so has one whose ticket cannot be written.
func TestOnlyACommandThatSucceedsHandsOff(t *testing.T) {
	s := server(t)
	others := kit.NewSession(t, s)
	freed := func(name string) {
		require.NoError(t, others.Mutex(name, relock.WithWait(soon)).Lock(t.Context()))
	}
	require.Empty(t, run(t, s, sh("--handoff", "fails", "exit 3")...).ends(3))
	freed("fails")
	told := run(t, s, sh("--handoff", "told", `trap "exit 0" TERM; echo ready; while :; do sleep 0.02; done`)...)
	told.says("ready")
	told.signal(syscall.SIGTERM)
	require.Equal(t, "ready\n", told.ends(0))
	told.warns("was told to end; the lock is not handed off")
	freed("told")
	cmd := command(s.Addr(), sh("--handoff", "unwritten", "exit 0")...)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	r := &running{t: t, cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = full, &r.err
	require.NoError(t, cmd.Start())
	go r.wait()
	t.Cleanup(r.kill)
	r.ends(69)
	r.warns("the ticket could not be written")
	freed("unwritten")
	require.NoError(t, others.Close(t.Context()))
}

func TestWrongTicketsAreTold(t *testing.T) {
	s := server(t)
	ticket := handsOff(t, s, "a", "exit 0")
	for flags, want := range map[string]struct {
		status int
		says   string
	}{
		"--adopt garbage -- true":                             {64, "not a ticket"},
		"--redis localhost:1 --adopt " + ticket + "x -- true": {64, "not a ticket"},
		"--adopt @/nonexistent -- true":                       {64, "no such file"},
		"--adopt env -- true":                                 {64, "RELOCK_TICKET is empty"},
		"--adopt " + ticket + " --":                           {64, "needs a command"},
		"--adopt " + ticket + " a -- true":                    {64, "leave its name out"},
		"--adopt " + ticket + " -s -- true":                   {64, "shared"},
		"--ticket-file t a -- true":                           {64, "--handoff"},
		"--handoff=1ms b -- true":                             {64, "at least 10ms"},
		"--handoff --ticket-file / a -- true":                 {64, "--ticket-file"},
		"--prefix p: --adopt " + ticket + " -- true":          {64, "prefix"},
		"--slots 2 --handoff a -- echo":                       {64, "slots"},
		"--slots 2 --adopt " + ticket + " -- echo":            {64, "slots"},
	} {
		r := run(t, s, append([]string{"run"}, strings.Fields(flags)...)...)
		require.Empty(t, r.ends(want.status))
		r.warns(want.says)
	}
	run(t, s, "run", "--adopt", ticket, "--", "true").ends(0)
}
