package test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
)

// running is a process of the test.
type running struct {
	t        testing.TB
	cmd      *exec.Cmd
	out, err redistest.Buffer
	ended    chan struct{}
	status   int // the exit status as a shell says it
}

// command returns relock with its arguments, connected to an address.
func command(address string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "RELOCK_REDIS="+address)
	return cmd
}

// start starts a command, which is killed when the test ends.
func start(t testing.TB, cmd *exec.Cmd) *running {
	t.Helper()
	r := &running{t: t, cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &r.out, &r.err
	cmd.WaitDelay = time.Second // a child that lives on may have the pipes
	require.NoError(t, cmd.Start())
	go r.wait()
	t.Cleanup(r.kill)
	return r
}

func (r *running) wait() {
	defer close(r.ended)
	_ = r.cmd.Wait()
	r.status = r.cmd.ProcessState.ExitCode()
	if ws, ok := r.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		r.status = 128 + int(ws.Signal())
	}
}

func (r *running) kill() {
	_ = r.cmd.Process.Kill()
	<-r.ended
	if r.t.Failed() {
		r.t.Logf("%v: status %d\nout: %s\nerr: %s", r.cmd.Args[1:], r.status, &r.out, &r.err)
	}
}

// run starts relock on a server.
func run(t testing.TB, s *redistest.Server, args ...string) *running {
	t.Helper()
	return start(t, command(s.Addr(), args...))
}

// waiting starts a shell script under a lock, which ends with status 1 when the function that it returns is called.
func waiting(t testing.TB, address, flags, name string) (end func()) {
	t.Helper()
	cmd := command(address, sh(flags, name, "echo ready; read line")...)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	r := start(t, cmd)
	r.says("ready")
	return func() {
		t.Helper()
		_ = in.Close()
		r.ends(1)
	}
}

// ends waits for the end and checks the exit status.
func (r *running) ends(status int) {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(soon):
		r.t.Fatalf("%v has not ended", r.cmd.Args[1:])
	}
	require.Equal(r.t, status, r.status, "status of %v\nout: %s\nerr: %s", r.cmd.Args[1:], &r.out, &r.err)
}

// prints runs relock on a server, which must end with a status, and returns its output.
func prints(t testing.TB, s *redistest.Server, status int, args ...string) string {
	t.Helper()
	r := run(t, s, args...)
	r.ends(status)
	return r.out.String()
}

// says waits until a text is among what was written to standard output.
func (r *running) says(text string) {
	r.t.Helper()
	wrote(r.t, &r.out, text)
}

// warns waits for a text on standard error.
func (r *running) warns(text string) {
	r.t.Helper()
	wrote(r.t, &r.err, text)
}

func wrote(t testing.TB, b *redistest.Buffer, text string) {
	t.Helper()
	redistest.Eventually(t, soon, strconv.Quote(text), func() bool { return strings.Contains(b.String(), text) })
}

func (r *running) signal(s os.Signal) {
	r.t.Helper()
	require.NoError(r.t, r.cmd.Process.Signal(s))
}

// number waits for a line "<what> <number>" of standard output, and returns the number.
func (r *running) number(what string) (n int) {
	r.t.Helper()
	redistest.Eventually(r.t, soon, what, func() bool {
		for line := range strings.Lines(r.out.String()) {
			if text, ok := strings.CutPrefix(line, what+" "); ok && strings.HasSuffix(text, "\n") {
				n, _ = strconv.Atoi(strings.TrimSpace(text))
				return true
			}
		}
		return false
	})
	return n
}

// alive reports whether a process exists and is no zombie.
func alive(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	state, err := stateOf(pid)
	return err == nil && state != "Z" || errors.Is(err, os.ErrPermission)
}

// stateOf returns the letter for what a process does: T if it has stopped.
func stateOf(pid int) (string, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, rest, _ := strings.Cut(string(text), ") ")
	return rest[:min(1, len(rest))], err
}

// sh returns the arguments of run for a shell script under a lock.
func sh(flags string, name, script string) []string {
	return append(append([]string{"run"}, strings.Fields(flags)...), name, "--", "sh", "-c", script)
}

// catches tells from /proc whether a process has a handler for a signal.
func catches(pid int, s syscall.Signal) bool {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	_, mask, _ := strings.Cut(string(text), "SigCgt:\t")
	bits, _ := strconv.ParseUint(strings.Fields(mask + " 0")[0], 16, 64)
	return bits&(1<<(s-1)) != 0
}

// session starts a session of the library on a server.
func session(t testing.TB, s *redistest.Server) *relock.Session {
	t.Helper()
	session, err := relock.NewSession(t.Context(), s.Client(t))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, session.Close(context.Background())) })
	return session
}

// hold has somebody else hold a lock until the function that it returns is called.
func hold(t testing.TB, l relock.Locker) (release func()) {
	t.Helper()
	require.NoError(t, l.Lock(t.Context()))
	return func() {
		t.Helper()
		require.NoError(t, l.Unlock(context.Background()))
	}
}

// admin sends a command to a server.
func admin(t testing.TB, s *redistest.Server, args ...string) any {
	t.Helper()
	reply, err := s.Do(args...)
	require.NoError(t, err)
	return reply
}

// locked waits until a lock is held, or not.
func locked(t testing.TB, s *redistest.Server, name string, want bool) {
	t.Helper()
	redistest.Eventually(t, soon, fmt.Sprintf("locked %s: %v", name, want), func() bool {
		return (admin(t, s, "EXISTS", name) == int64(1)) == want
	})
}

// forced opens a lock.
func forced(t testing.TB, s *relock.Session, name string) {
	t.Helper()
	was, err := s.ForceUnlock(t.Context(), name)
	require.NoError(t, err)
	require.True(t, was)
}

// soon is when something that is not measured must have happened, on a slow machine too.
const soon = time.Minute

// program is the command under test.
var program string

func TestMain(m *testing.M) {
	// What a test starts has the default for a signal that is caught here. One that is ignored, as HUP
	// is under nohup, would stay ignored there.
	for _, s := range passedOn {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	os.Exit(build(m))
}

func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "relock")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "relock")
	args := []string{"build", "-o", program}
	if os.Getenv("RELOCK_RACE") != "" {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "..")...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	for _, name := range []string{"RELOCK_REDIS", "RELOCK_NAME", "RELOCK_TOKEN"} {
		os.Unsetenv(name)
	}
	return m.Run()
}
