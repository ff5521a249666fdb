package job

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
)

// guardName is the guard's only argument.
const guardName = "kill-the-command-if-relock-dies"

// A Guard is a second process of this program, and a member of the command's group. It kills the
// group if this process dies: the kernel, which may watch the command itself, does not watch what
// the command has started. And it hears the signals that others send to the group, such as those of
// a terminal's keys.
//
// It obeys lines on a pipe that only this process can write to. At the end of the pipe it kills.
type Guard struct {
	pid   int
	pipe  *os.File
	ready chan error          // once: it can join a group
	heard chan syscall.Signal // closed when it has left the group, or is gone
	lines *os.File            // what it says: ready, numbers of signals, left
}

const (
	guardJoins   = "join " // with the number of the group
	guardLeaves  = "leave" // it still kills the group if this process dies
	guardDone    = "done"
	guardIsReady = "ready"
	guardHasLeft = "left"

	// lastOfAll is what the guard sends itself to have heard all signals that came before: Linux
	// delivers lower numbers first. It is higher than those that are passed on.
	lastOfAll = syscall.SIGIO
)

// ErrGuard says that there is no guard.
var ErrGuard = errors.New("cannot start the guard")

// StartGuard starts a guard. Do it before anything that may take time: later the program's file may
// be another one.
func StartGuard() (*Guard, error) {
	in, pipe, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrGuard, err)
	}
	defer in.Close()
	lines, out, err := os.Pipe()
	if err != nil {
		_ = pipe.Close()
		return nil, fmt.Errorf("%w: %w", ErrGuard, err)
	}
	defer out.Close()
	g := &Guard{pipe: pipe, lines: lines, ready: make(chan error, 1), heard: make(chan syscall.Signal)}
	if g.pid, err = startAgain(in, out); err != nil {
		_, _ = pipe.Close(), lines.Close()
		return nil, fmt.Errorf("%w: %w", ErrGuard, err)
	}
	go g.read() // until Dismiss
	return g, nil
}

// startAgain starts this program as a guard: what the kernel runs, whatever has become of its file,
// or if there is no /proc the file.
func startAgain(in, out *os.File) (pid int, err error) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	executable, _ := os.Executable()
	named, _ := exec.LookPath(os.Args[0])
	for _, program := range []string{"/proc/self/exe", executable, named} {
		var p *os.Process
		p, err = os.StartProcess(program, []string{"relock", guardName}, &os.ProcAttr{
			Env:   []string{"GOMAXPROCS=1"},
			Files: []*os.File{in, out, null},
			Sys:   &syscall.SysProcAttr{Setpgid: true},
		})
		if err == nil {
			pid = p.Pid
			return pid, p.Release()
		}
	}
	return 0, err
}

// read passes on what the guard says.
func (g *Guard) read() {
	defer close(g.heard)
	lines := bufio.NewScanner(g.lines)
	if !lines.Scan() || lines.Text() != guardIsReady {
		g.ready <- fmt.Errorf("%w: it has ended", ErrGuard)
		return
	}
	g.ready <- nil
	for lines.Scan() && lines.Text() != guardHasLeft {
		if n, err := strconv.Atoi(lines.Text()); err == nil {
			g.heard <- syscall.Signal(n)
		}
	}
}

func (g *Guard) say(line string) { _, _ = fmt.Fprintln(g.pipe, line) }

// join has the guard hear what a group hears, and kill it if this process dies.
func (g *Guard) join(group int) { g.say(guardJoins + strconv.Itoa(group)) }

// leave has it leave the group when it has said what the group has heard.
func (g *Guard) leave() {
	g.say(guardLeaves)
	_ = syscall.Kill(g.pid, syscall.SIGCONT) // it may have stopped with the group
}

// Dismiss ends the guard, which then kills nobody.
func (g *Guard) Dismiss() {
	g.say(guardDone)
	_, _ = g.pipe.Close(), g.lines.Close()
	for range g.heard { // until read has ended
	}
}

// RunGuard runs the guard and does not return, if this process was started as one. A program
// that uses this package calls it first.
func RunGuard() {
	if len(os.Args) != 2 || os.Args[1] != guardName {
		return
	}
	passed := map[os.Signal]bool{}
	for _, s := range passedOn() {
		passed[s] = true
	}
	signals := make(chan os.Signal, 64)
	signal.Notify(signals) // all: none that the group gets ends it, but KILL
	lines := make(chan string)
	go func() { // ends with the process
		defer close(lines)
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			lines <- in.Text()
		}
	}()
	fmt.Println(guardIsReady)
	group, leaves := 0, false
	for {
		select {
		case s := <-signals:
			switch {
			case passed[s]:
				fmt.Println(int(s.(syscall.Signal)))
			case leaves && s == lastOfAll:
				fmt.Println(guardHasLeft)
			}
		case line, ok := <-lines:
			number, joins := strings.CutPrefix(line, guardJoins)
			switch {
			case line == guardDone || !ok && group == 0:
				os.Exit(0)
			case !ok:
				_ = syscall.Kill(-group, syscall.SIGKILL)
				os.Exit(0)
			case joins:
				if n, err := strconv.Atoi(number); err == nil && n > 1 && syscall.Setpgid(0, n) == nil {
					group = n
				}
			case line == guardLeaves:
				_ = syscall.Setpgid(0, 0)
				leaves = true
				_ = syscall.Kill(os.Getpid(), lastOfAll)
			}
		}
	}
}
