package redistest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// What a helper process is told by its environment.
const (
	childEnv     = "RELOCK_CHILD"      // its role
	childArgsEnv = "RELOCK_CHILD_ARGS" // its arguments, a JSON array of strings
)

// RunChild makes a test binary able to be a helper process of [Child]. It must be
// called first thing in TestMain. In a helper process it runs the role it was
// started for and exits, with 0 when the role's function returns, or with 1 and
// a message when roles has no such role. In any other process it returns at once.
//
// A role talks to its test by lines on os.Stdin and os.Stdout; what it writes to
// os.Stderr is seen in the test's log. The process exits when its input ends, as
// it does when the test's process dies.
func RunChild(roles map[string]func(args []string)) {
	role, ok := os.LookupEnv(childEnv)
	if !ok {
		return
	}
	if err := runRole(roles, role); err != nil {
		fmt.Fprintln(os.Stderr, "redistest:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// RunMain is the TestMain of a program: it makes the program's main function a role of [RunChild], and checks that the
// tests leave no goroutines.
func RunMain(m *testing.M, role string, main func()) {
	RunChild(map[string]func([]string){role: func(args []string) {
		os.Args = append(os.Args[:1], args...)
		main()
	}})
	goleak.VerifyTestMain(m, Leaks()...)
}

// Running runs a program in this process, with a Redis in memory, until interrupt is called or the test ends. The
// program must then return nil.
func Running(t testing.TB, program func(ctx context.Context) error) (interrupt func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go WithoutFIPS(func() { ended <- program(ctx) })
	interrupt = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("redistest: interrupted: %v", err)
		}
	})
	t.Cleanup(interrupt)
	return interrupt
}

func runRole(roles map[string]func(args []string), role string) error {
	run := roles[role]
	if run == nil {
		return fmt.Errorf("no role %q", role)
	}
	var args []string
	if err := json.Unmarshal([]byte(os.Getenv(childArgsEnv)), &args); err != nil {
		return fmt.Errorf("%s: %w", childArgsEnv, err)
	}
	// The real input is read here, so that its end is noticed whatever the role does.
	parent := os.Stdin
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	os.Stdin = r
	go func() {
		// Why the input ended makes no difference.
		_, _ = io.Copy(w, parent)
		os.Exit(0)
	}()
	run(args)
	return nil
}

// A Proc is a helper process, made by [Child]. It is safe for concurrent use.
type Proc struct {
	name  string
	tb    testing.TB
	proc  *process
	stdin io.WriteCloser
	out   *lineQueue
}

// Child starts this test binary again as a helper process that runs a role of
// [RunChild]. The process is killed when the test ends, and each line of its
// standard error is logged. Child stops the test with t.Fatal when the process
// cannot be started.
func Child(t testing.TB, role string, args ...string) *Proc {
	t.Helper()
	return ChildIn(t, nil, role, args...)
}

// ChildIn is [Child] with more in the environment, each as "key=value".
func ChildIn(t testing.TB, env []string, role string, args ...string) *Proc {
	t.Helper()
	p, err := startChild(t, env, role, args)
	if err != nil {
		t.Fatalf("redistest: child %s: %v", role, err)
	}
	t.Cleanup(p.Kill)
	return p
}

func startChild(t testing.TB, env []string, role string, args []string) (*Proc, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	list, err := json.Marshal(append([]string{}, args...))
	if err != nil {
		return nil, err
	}
	p := &Proc{name: role, tb: t, out: newLineQueue()}
	cmd := exec.Command(self)
	cmd.Env = append(slices.Concat(os.Environ(), env), childEnv+"="+role, childArgsEnv+"="+string(list))
	cmd.Stdout = &lineWriter{line: p.out.put}
	cmd.Stderr = &lineWriter{line: func(s string) { t.Logf("%s: %s", role, s) }}
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	p.proc, err = startProcess(cmd)
	return p, err
}

// PID returns the process id, also of a process that has ended.
func (p *Proc) PID() int { return p.proc.pid() }

// Running reports whether the process exists. A frozen one does.
func (p *Proc) Running() bool { return p.proc.running() }

// Send writes a line to the process's standard input. It fails when the process
// has ended, and blocks while the pipe is full because a frozen process does not read.
func (p *Proc) Send(line string) error {
	p.tb.Helper()
	_, err := io.WriteString(p.stdin, line+"\n")
	if err != nil {
		err = fmt.Errorf("redistest: send to %s: %w", p.name, err)
	}
	return report(p.tb, err)
}

// CloseInput ends the process's standard input, upon which it exits with code 0
// whatever its role is doing.
func (p *Proc) CloseInput() error {
	p.tb.Helper()
	return report(p.tb, p.stdin.Close())
}

// Line returns the next line of the process's standard output. It returns io.EOF
// when the process has ended and all its lines were read, and an error that
// satisfies errors.Is(err, os.ErrDeadlineExceeded) when no line comes in time.
// Neither fails the test.
func (p *Proc) Line(timeout time.Duration) (string, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		ended := !p.proc.running() // before looking, so that no last line is missed
		if line, ok := p.out.take(); ok {
			return line, nil
		}
		if ended {
			return "", io.EOF
		}
		select {
		case <-p.out.more:
		case <-p.proc.done:
		case <-timer.C:
			return "", fmt.Errorf("redistest: no line from %s within %v: %w", p.name, timeout, os.ErrDeadlineExceeded)
		}
	}
}

// Expect skips the lines of standard output up to the next one that begins with
// prefix, and returns what follows the prefix in it. It fails when no such line
// comes in time.
func (p *Proc) Expect(prefix string, timeout time.Duration) (string, error) {
	p.tb.Helper()
	deadline := time.Now().Add(timeout)
	var skipped []string
	for {
		line, err := p.Line(time.Until(deadline))
		if err != nil {
			return "", report(p.tb, fmt.Errorf("redistest: expected %q of %s, got %q: %w", prefix, p.name, skipped, err))
		}
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			return rest, nil
		}
		skipped = append(skipped, line)
	}
}

// Copy appends the lines of standard output to b as they come, until the end of the test. There is nothing for
// [Proc.Line] and [Proc.Expect] then.
func (p *Proc) Copy(b *Buffer) {
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		for {
			line, err := p.Line(time.Hour)
			if err != nil {
				return
			}
			fmt.Fprintln(b, line)
		}
	}()
	p.tb.Cleanup(func() {
		p.Kill()
		<-copied
	})
}

// Freeze stops the process with SIGSTOP and returns once every thread has
// stopped. It fails when the process has ended.
func (p *Proc) Freeze() error {
	p.tb.Helper()
	return report(p.tb, p.proc.freeze())
}

// Thaw lets a frozen process go on. It fails when the process has ended.
func (p *Proc) Thaw() error {
	p.tb.Helper()
	return report(p.tb, p.proc.thaw())
}

// Kill ends the process with SIGKILL, frozen or not, and returns once it is
// gone. It does nothing when the process has ended.
func (p *Proc) Kill() { p.proc.kill() }

// Interrupt sends what Ctrl-C sends, and waits like Wait.
func (p *Proc) Interrupt() error {
	proc, err := os.FindProcess(p.PID())
	if err == nil {
		err = proc.Signal(os.Interrupt)
	}
	return errors.Join(err, p.Wait())
}

// Wait blocks until the process has ended and its output was read. It returns
// nil for exit code 0, else what [exec.Cmd.Wait] returns, without failing the test.
func (p *Proc) Wait() error {
	<-p.proc.done
	return p.proc.err
}
