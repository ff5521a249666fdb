package test

import (
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

// lacks skips a test on a machine that lacks something. CI requires that nothing is skipped.
func lacks(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("RELOCK_REQUIRE_REDIS") != "" {
		t.Fatal("this machine lacks " + what)
	}
	t.Skip("this machine lacks " + what)
}

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
	cmd.Env = append(os.Environ(), "RELOCK_REDIS="+address, "LC_ALL=C.UTF-8")
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

// server starts a server for a test that runs beside others.
func server(t *testing.T) *redistest.Server {
	t.Helper()
	t.Parallel()
	return redistest.Start(t)
}

// run starts relock on a server.
func run(t testing.TB, s *redistest.Server, args ...string) *running {
	t.Helper()
	return start(t, command(s.Addr(), args...))
}

// waiting starts a shell script under a lock, which waits until the function that it returns is called, and ends with
// status 1.
func waiting(t testing.TB, cmd *exec.Cmd) (r *running, end func()) {
	t.Helper()
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	r = start(t, cmd)
	r.says("ready")
	return r, func() {
		t.Helper()
		_ = in.Close()
		r.ends(1)
	}
}

const waits = "echo ready; read line"

// ends waits for the end, checks the exit status, and returns the output.
func (r *running) ends(status int) string {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(soon):
		r.t.Fatalf("%v has not ended", r.cmd.Args[1:])
	}
	require.Equal(r.t, status, r.status, "status of %v\nout: %s\nerr: %s", r.cmd.Args[1:], &r.out, &r.err)
	return r.out.String()
}

// diedOf returns the signal that has ended the process, 0 if none has.
func (r *running) diedOf() syscall.Signal {
	if ws, ok := r.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return ws.Signal()
	}
	return 0
}

// says waits until a text is among what was written to standard output.
func (r *running) says(text string) { wrote(r.t, &r.out, text) }

// warns waits for a text on standard error.
func (r *running) warns(text string) { wrote(r.t, &r.err, text) }

func wrote(t testing.TB, b *redistest.Buffer, text string) {
	t.Helper()
	redistest.Eventually(t, soon, strconv.Quote(text), func() bool { return strings.Contains(b.String(), text) })
}

func (r *running) signal(s os.Signal) { require.NoError(r.t, r.cmd.Process.Signal(s)) }

// number waits for a line "<what> <number>" of standard output, and returns the number.
func (r *running) number(what string) (n int) {
	r.t.Helper()
	line := regexp.MustCompile("(?m)^" + what + ` (\d+)\r?\n`)
	redistest.Eventually(r.t, soon, what, func() bool {
		found := line.FindStringSubmatch(r.out.String())
		if found != nil {
			n, _ = strconv.Atoi(found[1])
		}
		return found != nil
	})
	return n
}

// status returns what /proc says of a process: as its State a letter, T if it has stopped.
func status(pid int, field string) string {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	_, rest, _ := strings.Cut(string(text), field+":")
	return strings.Fields(rest + " gone")[0]
}

// alive reports whether a process exists and is no zombie.
func alive(pid int) bool {
	state := status(pid, "State")
	return state != "gone" && state != "Z"
}

// sh returns the arguments of run for a shell script under a lock.
func sh(flags string, name, script string) []string {
	return append(append([]string{"run"}, strings.Fields(flags)...), name, "--", "sh", "-c", script)
}

// holds has an unknown process hold locks.
func holds(t testing.TB, s *redistest.Server, names ...string) {
	t.Helper()
	for _, name := range names {
		admin(t, s, "HSET", name, stranger+":1", "1")
	}
}

const stranger = "4f1b9a52-8d9e-8c55-9d0c-000000000001" // the id of its session

// hold has somebody else hold a lock until the function that it returns is called.
func hold(t testing.TB, l relock.Locker) (release func()) {
	t.Helper()
	kit.Lock(t, kit.Background, l)
	return func() {
		t.Helper()
		kit.Unlock(t, kit.Background, l)
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
	dir, err := os.MkdirTemp("", "relock")
	if err != nil {
		log.Fatal(err)
	}
	program = filepath.Join(dir, "relock")
	race := "-race=" + strconv.FormatBool(os.Getenv("RELOCK_RACE") != "")
	if out, err := exec.Command("go", "build", race, "-o", program, "..").CombinedOutput(); err != nil {
		log.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"RELOCK_REDIS", "RELOCK_NAME", "RELOCK_TOKEN", "RELOCK_SESSIONS"} {
		os.Unsetenv(name)
	}
	ended := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(ended)
}
