package test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// In a pipeline the other side may read from the terminal first; the command gets it when it
// wants it.
func TestCommandInAPipelineGetsTheTerminal(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	x := shell(t, s)
	x.types("\"$relock\" run job -- sh -c 'echo re\"\"ady; read line; echo got $line' | cat\n")
	mark := x.shows(0, "ready")
	x.types("one\n")
	mark = x.shows(mark, "got one")
	mark = x.shows(mark, "PROMPT ")
	x.types("\"$relock\" run job -- sh -c 'echo re\"\"ady; exec sleep 100' | cat\n")
	mark = x.shows(mark, "ready")
	x.types(ctrlC)
	mark = x.shows(mark, "PROMPT ")
	x.types("echo status ${PIPESTATUS[0]}\n")
	x.shows(mark, "status 130")
	x.types("exit\n")
	x.ends(0)
}

// The shell gets the terminal back when the command is stopped, and the command when it goes on. While both are stopped
// nobody renews the lock: the command does not go on without it.
func TestStoppedCommandGoesOnInTheForeground(t *testing.T) {
	t.Parallel()
	for flags, lost := range map[string]bool{"": false, "--lease 1s": true} {
		s := redistest.Start(t)
		x := shell(t, s)
		x.types("\"$relock\" run " + flags + " job -- sh -c 'echo re\"\"ady; read line; echo got $line'\n")
		mark := x.shows(0, "ready")
		x.types(ctrlZ)
		mark = x.shows(mark, "Stopped")
		mark = x.shows(mark, "PROMPT ")
		if lost {
			locked(t, s, "job", false)
			x.types("fg\n")
			mark = x.shows(mark, "the lock is lost")
		} else {
			x.types("fg\n")
			mark = x.shows(mark, "run job")
			x.types("one\n")
			mark = x.shows(mark, "got one")
		}
		mark = x.shows(mark, "PROMPT ")
		x.types("echo status $?\n")
		x.shows(mark, map[bool]string{false: "status 0", true: "status 137"}[lost])
		require.Equal(t, lost, !strings.Contains(x.text(), "\ngot "), "it went on")
		locked(t, s, "job", false)
	}
}

// Without a shell to continue it a command that is stopped by a key goes on at once.
func TestStopKeyDoesNotHangWithoutAShell(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	x := at(t, command(s.Addr(), sh("", "job", `echo ready; read line; echo "got $line"`)...))
	mark := x.shows(0, "ready")
	x.types(ctrlZ)
	x.types("one\n")
	x.shows(mark, "got one")
	x.ends(0)
}
