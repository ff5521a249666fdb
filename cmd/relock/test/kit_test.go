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

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
)

// running is a process of the test.
type running struct {
	t        testing.TB
	cmd      *exec.Cmd
	out, err redistest.Buffer
	ended    chan struct{}
	status   int
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
	ok(t, cmd.Start())
	go r.wait()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-r.ended
		if t.Failed() {
			t.Logf("%v: status %d\nout: %s\nerr: %s", cmd.Args[1:], r.status, &r.out, &r.err)
		}
	})
	return r
}

func (r *running) wait() {
	defer close(r.ended)
	_ = r.cmd.Wait()
	r.status = statusOf(r.cmd)
}

// statusOf returns the exit status as a shell would.
func statusOf(cmd *exec.Cmd) int {
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return cmd.ProcessState.ExitCode()
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
	ok(t, err)
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
		r.t.Fatalf("%v has not ended\nout: %s\nerr: %s", r.cmd.Args[1:], &r.out, &r.err)
	}
	if r.status != status {
		r.t.Fatalf("%v: status %d, want %d\nout: %s\nerr: %s", r.cmd.Args[1:], r.status, status, &r.out, &r.err)
	}
}

// says waits until a text is among what was written to standard output.
func (r *running) says(text string) {
	r.t.Helper()
	redistest.Eventually(r.t, soon, "output "+strconv.Quote(text), func() bool { return strings.Contains(r.out.String(), text) })
}

// warns waits for a text on standard error.
func (r *running) warns(text string) {
	r.t.Helper()
	redistest.Eventually(r.t, soon, "error output "+strconv.Quote(text), func() bool { return strings.Contains(r.err.String(), text) })
}

func (r *running) signal(s os.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		r.t.Fatal(err)
	}
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

// dies waits until a process is gone.
func dies(t testing.TB, pid int) {
	t.Helper()
	redistest.Eventually(t, soon, "end of process "+strconv.Itoa(pid), func() bool { return !alive(pid) })
}

// sh returns the arguments of run for a shell script under a lock.
func sh(flags string, name, script string) []string {
	return append(append([]string{"run"}, strings.Fields(flags)...), name, "--", "sh", "-c", script)
}

// catches and ignores tell what a process does with a signal, from /proc.
func catches(pid int, s syscall.Signal) bool { return inMask(pid, "SigCgt:", s) }
func ignores(pid int, s syscall.Signal) bool { return inMask(pid, "SigIgn:", s) }

func inMask(pid int, field string, s syscall.Signal) bool {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	for line := range strings.Lines(string(text)) {
		if mask, ok := strings.CutPrefix(line, field); ok {
			bits, _ := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			return bits&(1<<(s-1)) != 0
		}
	}
	return false
}

// session starts a session of the library on a server.
func session(t testing.TB, s *redistest.Server) *relock.Session {
	t.Helper()
	session, err := relock.NewSession(context.Background(), s.Client(t))
	ok(t, err)
	t.Cleanup(func() {
		if err := session.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return session
}

// hold has somebody else hold a lock until the function that it returns is called.
func hold(t testing.TB, l relock.Locker) (release func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	ok(t, l.Lock(ctx))
	return func() {
		t.Helper()
		ok(t, l.Unlock(context.Background()))
	}
}

// admin sends a command to a server.
func admin(t testing.TB, s *redistest.Server, args ...string) any {
	t.Helper()
	reply, err := s.Do(args...)
	ok(t, err)
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
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	was, err := s.ForceUnlock(ctx, name)
	if err != nil || !was {
		t.Fatalf("forced: %v, %v", was, err)
	}
}

// ok stops the test if there is an error.
func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
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

// failIf fails the test, and goes on, if something is the case.
func failIf(t testing.TB, wrong bool, format string, args ...any) {
	t.Helper()
	if wrong {
		t.Errorf(format, args...)
	}
}
