package top

import (
	"errors"
	"strings"
	"testing"

	"github.com/gdamore/tcell/v2"
)

// tcell passes control characters on.
func TestScreenHasNoControlCharacters(t *testing.T) {
	screen := tcell.NewSimulationScreen("UTF-8")
	if err := screen.Init(); err != nil {
		t.Fatal(err)
	}
	defer screen.Fini()
	screen.SetSize(120, 24)
	m := newModel(nil, Options{Server: "server\x1b]0;x\a", Pattern: "\u009bx"})
	m.width, m.height, m.failed, m.filter = 120, 24, errors.New("fails\x1b]0;owned\a\x9b"), "\x1b\x1bx"
	m.draw(screen)
	cells, _, _ := screen.GetContents()
	var all strings.Builder
	for _, c := range cells {
		all.WriteString(string(c.Runes))
	}
	text := all.String()
	if strings.ContainsAny(text, "\x1b\a\u009b\uFFFD") || !strings.Contains(text, `fails\x1b]0;owned\a\x9b`) {
		t.Errorf("%q", text)
	}
}
