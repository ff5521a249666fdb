package test

import (
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

// The shell gets the terminal back when the command is stopped, and the command when it goes on.
func TestStoppedCommandGoesOnInTheForeground(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	x := shell(t, s)
	x.types("\"$relock\" run job -- sh -c 'echo re\"\"ady; read line; echo got $line'; echo status $?\n")
	mark := x.shows(0, "ready")
	x.types(ctrlZ)
	mark = x.shows(mark, "Stopped")
	mark = x.shows(mark, "PROMPT ")
	x.types("fg\n")
	mark = x.shows(mark, "run job")
	x.types("one\n")
	x.shows(mark, "got one")
	locked(t, s, "job", false)
}

// While both are stopped nobody renews the lock. The command does not go on without it.
func TestStoppedCommandEndsIfItsLockIsLost(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	x := shell(t, s)
	x.types("\"$relock\" run --lease 1s job -- sh -c 'echo re\"\"ady; read line; echo went on'\n")
	mark := x.shows(0, "ready")
	x.types(ctrlZ)
	mark = x.shows(mark, "Stopped")
	locked(t, s, "job", false)
	x.types("fg\n")
	mark = x.shows(mark, "the lock is lost")
	mark = x.shows(mark, "PROMPT ")
	x.types("echo status $?\n")
	x.shows(mark, "status 137")
	require.NotContains(t, x.text(), "went on\n")
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
