package test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
)

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
	deadline := time.Now().Add(soon)
	for time.Now().Before(deadline) {
		if screen = x.screen(); re.MatchString(screen) {
			return screen
		}
		time.Sleep(20 * time.Millisecond)
	}
	x.t.Fatalf("not on the screen: %s\n%s", expr, screen)
	return ""
}

// topAt starts relock top at a terminal.
func topAt(t testing.TB, s *redistest.Server, args ...string) *terminal {
	t.Helper()
	return at(t, command(s.Addr(), append([]string{"top", "--interval", "200ms"}, args...)...))
}
