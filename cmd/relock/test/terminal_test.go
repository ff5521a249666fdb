package test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// In a pipeline the other side may read from the terminal first; the command gets it when it
// wants it.
func TestCommandInAPipelineGetsTheTerminal(t *testing.T) {
	s := server(t)
	x := shell(t, s, "--noediting")
	x.types("relock run job -- sh -c 'echo re\"\"ady; read line; echo got $line' | cat\n", "ready")
	x.types("one\n", "got one", "PROMPT ")
	x.types("relock run job -- sh -c 'echo re\"\"ady; exec sleep 100' | cat\n", "ready")
	x.types(ctrlC, "PROMPT ")
	x.types("echo status ${PIPESTATUS[0]}\n", "status 130")
	x.quits("exit\n", 0)
}

// The shell gets the terminal back when the command is stopped, and the command when it goes on. While both are stopped
// nobody renews the lock: the command does not go on without it.
func TestStoppedCommandGoesOnInTheForeground(t *testing.T) {
	t.Parallel()
	for flags, lost := range map[string]bool{"": false, "--lease 1s": true} {
		s := redistest.Start(t)
		x := shell(t, s, "--noediting")
		x.types("relock run "+flags+" job -- sh -c 'echo re\"\"ady; read line; echo got $line'\n", "ready")
		x.types(ctrlZ, "Stopped", "PROMPT ")
		if lost {
			locked(t, s, "job", false)
			x.types("fg\n", "the lock is lost", "PROMPT ")
		} else {
			x.types("fg\n", "run job")
			x.types("one\n", "got one", "PROMPT ")
		}
		x.types("echo status $?\n", map[bool]string{false: "status 0", true: "status 137"}[lost])
		require.Equal(t, lost, !strings.Contains(x.text(), "\ngot "), "it went on")
		locked(t, s, "job", false)
	}
}

// Without a shell to continue it a command that is stopped by a key goes on at once.
func TestStopKeyDoesNotHangWithoutAShell(t *testing.T) {
	s := server(t)
	x := at(t, command(s.Addr(), sh("", "job", `echo ready; read line; echo "got $line"`)...))
	x.shows("ready")
	x.types(ctrlZ)
	x.types("one\n", "got one")
	x.ends(0)
}

// terminal is a process at a terminal, and what it wrote there.
type terminal struct {
	*running
	master *os.File
	mark   int // behind what it has shown
}

// at starts a command at a terminal of its own.
func at(t testing.TB, cmd *exec.Cmd) *terminal {
	t.Helper()
	return atWidth(t, cmd, columns)
}

func atWidth(t testing.TB, cmd *exec.Cmd, width uint16) *terminal {
	t.Helper()
	cmd.Env = append(cmd.Environ(), "TERM=xterm", "LANG=C.UTF-8")
	master, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: rows, Cols: width})
	require.NoError(t, err)
	x := &terminal{running: &running{t: t, cmd: cmd, ended: make(chan struct{})}, master: master}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(&x.out, master) // until the last process has left the terminal
	}()
	go x.wait()
	t.Cleanup(func() {
		x.kill()
		if t.Failed() {
			t.Logf("screen:\n%s", x.screen())
		}
		_ = master.Close()
		<-copied
	})
	return x
}

// text is what was written, without what moves the cursor and sets colours.
func (x *terminal) text() string {
	return regexp.MustCompile(escape+"|\r").ReplaceAllString(x.out.String(), "")
}

// types types, and then waits for texts.
func (x *terminal) types(keys string, then ...string) {
	x.t.Helper()
	_, err := x.master.WriteString(keys)
	require.NoError(x.t, err)
	x.shows(then...)
}

// quits types, and waits for the end.
func (x *terminal) quits(keys string, status int) {
	x.t.Helper()
	x.types(keys)
	x.ends(status)
}

// shows waits until texts are on the terminal, one after the other, and after what it has shown before.
func (x *terminal) shows(texts ...string) {
	x.t.Helper()
	for _, text := range texts {
		redistest.Eventually(x.t, soon, "on the terminal: "+strconv.Quote(text), func() bool {
			all := x.text()
			i := strings.Index(all[min(x.mark, len(all)):], text)
			if i >= 0 {
				x.mark += i + len(text)
			}
			return i >= 0
		})
	}
}

const (
	rows, columns = 24, 120

	ctrlC = "\x03"
	ctrlZ = "\x1a"
)

// shell starts an interactive shell at a terminal, which knows relock.
func shell(t testing.TB, s *redistest.Server, args ...string) *terminal {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if errors.Is(err, exec.ErrNotFound) {
		lacks(t, "bash")
	}
	cmd := exec.Command(bash, append(args, "--norc", "--noprofile", "-i")...)
	cmd.Env = append(os.Environ(), "RELOCK_REDIS="+s.Addr(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"),
		"PS1=PROMPT ", "HISTFILE=", "INPUTRC=/dev/null")
	x := at(t, cmd)
	x.shows("PROMPT ")
	return x
}

// screen returns what a person sees: the output, drawn. It knows what the tests need of an
// xterm.
func (x *terminal) screen() string {
	var lines [rows][columns]rune
	row, col := 0, 0
	for _, m := range drawing.FindAllStringSubmatch(x.out.String(), -1) {
		switch text := m[0]; {
		case text == "\n":
			row = min(row+1, rows-1)
		case text == "\r":
			col = 0
		case m[2] == "H":
			row, col = 1, 1
			_, _ = fmt.Sscanf(m[1], "%d;%d", &row, &col)
			row, col = row-1, col-1
		case m[2] == "J":
			lines = [rows][columns]rune{}
		case m[2] == "" && text[0] != '\x1b':
			if row < rows && col < columns {
				lines[row][col] = []rune(text)[0]
			}
			col++
		}
	}
	var all strings.Builder
	for _, l := range lines {
		all.WriteString(strings.TrimRight(strings.ReplaceAll(string(l[:]), "\x00", " "), " ") + "\n")
	}
	return all.String()
}

// escape is a sequence that ends with a letter, or another escape; drawing is one, or one character.
const escape = "\x1b\\[([0-9;?<>=]*)([a-zA-Z])|\x1b[()][A-Z0-9]|\x1b[=>78]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|\x1b."

var drawing = regexp.MustCompile(escape + "|(?s:.)")

// displays waits until what is on the screen matches an expression, and returns the screen.
func (x *terminal) displays(expr string) (screen string) {
	x.t.Helper()
	re := regexp.MustCompile("(?m)" + expr)
	redistest.Eventually(x.t, soon, "on the screen: "+expr, func() bool {
		screen = x.screen()
		return re.MatchString(screen)
	})
	return screen
}

// presses types, and then waits for what is on the screen.
func (x *terminal) presses(keys, expr string) {
	x.t.Helper()
	x.types(keys)
	x.displays(expr)
}

// topAt starts relock top at a terminal.
func topAt(t testing.TB, s *redistest.Server, args ...string) *terminal {
	t.Helper()
	return at(t, command(s.Addr(), append([]string{"top", "--interval", "200ms"}, args...)...))
}
