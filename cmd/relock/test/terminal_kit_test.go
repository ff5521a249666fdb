package test

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/relock-go/relock/internal/redistest"
)

// terminal is a process at a terminal, and what it wrote there.
type terminal struct {
	t      testing.TB
	cmd    *exec.Cmd
	master *os.File
	out    redistest.Buffer
	ended  chan struct{}
	status int
}

// at starts a command at a terminal of its own.
func at(t testing.TB, cmd *exec.Cmd) *terminal {
	t.Helper()
	cmd.Env = append(cmd.Environ(), "TERM=xterm", "LANG=C.UTF-8")
	master, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: rows, Cols: columns})
	ok(t, err)
	x := &terminal{t: t, cmd: cmd, master: master, ended: make(chan struct{})}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		for buf := make([]byte, 1<<12); ; {
			n, err := master.Read(buf)
			_, _ = x.out.Write(buf[:n])
			if err != nil {
				return // the last process has left the terminal
			}
		}
	}()
	go func() {
		defer close(x.ended)
		_ = cmd.Wait()
		x.status = statusOf(cmd)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-x.ended
		_ = master.Close()
		<-copied
		if t.Failed() {
			t.Logf("%v: status %d, screen:\n%s", cmd.Args, x.status, x.text())
		}
	})
	return x
}

// text is what was written, without what moves the cursor and sets colours.
func (x *terminal) text() string {
	return strings.ReplaceAll(escapes.ReplaceAllString(x.out.String(), ""), "\r", "")
}

// types types.
func (x *terminal) types(keys string) {
	x.t.Helper()
	if _, err := x.master.WriteString(keys); err != nil {
		x.t.Fatal(err)
	}
}

// shows waits until a text is on the terminal after a mark, and returns the mark behind it.
func (x *terminal) shows(after int, text string) (mark int) {
	x.t.Helper()
	redistest.Eventually(x.t, soon, "on the terminal: "+strconv.Quote(text), func() bool {
		all := x.text()
		if len(all) < after {
			return false
		}
		if i := strings.Index(all[after:], text); i >= 0 {
			mark = after + i + len(text)
			return true
		}
		return false
	})
	return mark
}

func (x *terminal) ends(status int) {
	x.t.Helper()
	select {
	case <-x.ended:
	case <-time.After(soon):
		x.t.Fatal("it has not ended")
	}
	if x.status != status {
		x.t.Fatalf("status %d, want %d", x.status, status)
	}
}

const (
	rows, columns = 24, 120

	ctrlC = "\x03"
	ctrlZ = "\x1a"
)

// shell starts an interactive shell at a terminal, in which $relock is the program.
func shell(t testing.TB, s *redistest.Server) *terminal {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("bash is not installed")
	}
	cmd := exec.Command(bash, "--norc", "--noprofile", "--noediting", "-i")
	cmd.Env = append(os.Environ(), "RELOCK_REDIS="+s.Addr(), "relock="+program, "PS1=PROMPT ", "HISTFILE=")
	x := at(t, cmd)
	x.shows(0, "PROMPT ")
	return x
}

// escapes are sequences that move the cursor, set colours, or set up the terminal.
var escapes = regexp.MustCompile("\x1b(\\[[0-9;?<>=]*[a-zA-Z]|[()][A-Z0-9]|[=>78]|\\][^\x07\x1b]*(\x07|\x1b\\\\))")
