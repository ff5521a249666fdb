package top

import (
	"errors"
	"strings"
	"testing"

	"github.com/gdamore/tcell/v2"
	"github.com/stretchr/testify/require"
)

// tcell passes control characters on.
func TestScreenHasNoControlCharacters(t *testing.T) {
	screen := tcell.NewSimulationScreen("UTF-8")
	require.NoError(t, screen.Init())
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
	require.False(t, strings.ContainsAny(all.String(), "\x1b\a\u009b\uFFFD"), "%q", all.String())
	require.Contains(t, all.String(), `fails\x1b]0;owned\a\x9b`)
}
