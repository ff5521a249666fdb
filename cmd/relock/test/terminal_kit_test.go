package test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// terminal is a process at a terminal, and what it wrote there.
type terminal struct {
	*running
	master *os.File
}

// at starts a command at a terminal of its own.
func at(t testing.TB, cmd *exec.Cmd) *terminal {
	t.Helper()
	cmd.Env = append(cmd.Environ(), "TERM=xterm", "LANG=C.UTF-8")
	master, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: rows, Cols: columns})
	require.NoError(t, err)
	x := &terminal{&running{t: t, cmd: cmd, ended: make(chan struct{})}, master}
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
	return drawing.ReplaceAllStringFunc(x.out.String(), func(step string) string {
		if step[0] == '\x1b' || step == "\r" {
			return ""
		}
		return step
	})
}

// types types.
func (x *terminal) types(keys string) {
	x.t.Helper()
	_, err := x.master.WriteString(keys)
	require.NoError(x.t, err)
}

// shows waits until a text is on the terminal after a mark, and returns the mark behind it.
func (x *terminal) shows(after int, text string) (mark int) {
	x.t.Helper()
	redistest.Eventually(x.t, soon, "on the terminal: "+strconv.Quote(text), func() bool {
		all := x.text()
		i := strings.Index(all[min(after, len(all)):], text)
		mark = after + i + len(text)
		return i >= 0
	})
	return mark
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

// screen returns what a person sees: the output, drawn. It knows what the tests need of an
// xterm.
func (x *terminal) screen() string {
	lines := make([][]rune, rows)
	for y := range lines {
		lines[y] = []rune(strings.Repeat(" ", columns))
	}
	row, col := 0, 0
	for _, m := range drawing.FindAllStringSubmatch(x.out.String(), -1) {
		switch text := m[0]; {
		case text == "\n":
			row = min(row+1, rows-1)
		case text == "\r":
			col = 0
		case m[2] == "H":
			y, rest, _ := strings.Cut(m[1], ";")
			row, col = number(y)-1, number(rest)-1
		case m[2] == "J":
			for y := range lines {
				lines[y] = []rune(strings.Repeat(" ", columns))
			}
		case m[2] == "" && text[0] != '\x1b':
			if row < rows && col < columns {
				lines[row][col] = []rune(text)[0]
			}
			col++
		}
	}
	var all strings.Builder
	for _, l := range lines {
		all.WriteString(strings.TrimRight(string(l), " ") + "\n")
	}
	return all.String()
}

func number(text string) int {
	n, _ := strconv.Atoi(text)
	return max(n, 1)
}

// drawing is one step: a sequence that ends with a letter, another escape, or one character.
var drawing = regexp.MustCompile("\x1b\\[([0-9;?<>=]*)([a-zA-Z])|\x1b[()][A-Z0-9]|\x1b[=>78]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|\x1b.|\x0f|(?s:.)")

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

// topAt starts relock top at a terminal.
func topAt(t testing.TB, s *redistest.Server, args ...string) *terminal {
	t.Helper()
	return at(t, command(s.Addr(), append([]string{"top", "--interval", "200ms"}, args...)...))
}
