package job

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
)

// guardName is the guard's only argument.
const guardName = "kill-the-command-if-relock-dies"

// guard kills the command's group when this process dies: the kernel, which may watch the
// command itself, does not watch what the command has started. It reads from a pipe that only
// this process can write to.
type guard struct{ pipe *os.File }

// startGuard starts a guard that has nothing to watch yet.
func startGuard() (*guard, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	p, err := os.StartProcess(program, []string{"relock", guardName}, &os.ProcAttr{
		Env:   []string{"GOMAXPROCS=1"},
		Files: []*os.File{r, null, null},
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		_ = w.Close()
		return nil, fmt.Errorf("starting the guard: %w", err)
	}
	_ = p.Release()
	return &guard{w}, nil
}

func (g *guard) watch(group int) { fmt.Fprintln(g.pipe, group) }

// dismiss ends the guard, which then kills nobody.
func (g *guard) dismiss() {
	fmt.Fprintln(g.pipe, 0)
	_ = g.pipe.Close()
}

// Guard runs the guard and does not return, if this process was started as one. A program
// that uses this package calls it first.
func Guard() {
	if len(os.Args) != 2 || os.Args[1] != guardName {
		return
	}
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTSTP)
	group := 0
	for lines := bufio.NewReader(os.Stdin); ; {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			os.Exit(1)
		}
		if group, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
			os.Exit(1)
		}
	}
	if group > 1 {
		_ = syscall.Kill(-group, syscall.SIGKILL)
	}
	os.Exit(0)
}
