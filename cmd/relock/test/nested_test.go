package test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

// within returns the arguments of relock runs, each the command of the one before: each has its
// flags and its name.
func within(runs ...string) (args []string) {
	for i, run := range runs {
		if i > 0 {
			args = append(args, program)
		}
		args = append(append(append(args, "run"), strings.Fields(run)...), "--")
	}
	return append(args, "echo", "ran")
}

// A relock run that would wait for one around it, and so for itself, is refused at once. It waited
// for ever.
func TestRunDoesNotWaitForARunAroundIt(t *testing.T) {
	s := server(t)
	const nested = "the relock run around this command holds this lock"
	for name, runs := range map[string][]string{
		"the same":         {"a", "a"},
		"bounded":          {"b", "-w 5m b"},
		"three levels":     {"c", "d", "c"},
		"the middle one":   {"e", "f", "g", "f"},
		"fair":             {"h", "--fair h"},
		"read in written":  {"-x i", "-s i"},
		"written in read":  {"-s j", "-x j"},
		"the last permit":  {"--slots 1 k", "--slots 1 k"},
		"both permits":     {"--slots 2 l", "--slots 2 l", "--slots 2 l"},
		"a smaller limit":  {"--slots 2 m", "--slots 1 m"},
		"another prefix":   {"p:n", "--prefix p: n"},
		"another address":  {"o", "--redis redis://localhost:" + port(s) + " o"},
		"with another -E":  {"q", "-E 7 q"},
		"with a long wait": {"r", "-w 1h --fair r"},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, s, within(runs...)...)
			require.Empty(t, r.ends(64))
			r.warns(nested)
		})
	}
	r := run(t, s, within("u", "-n -E 7 u")...)
	require.Empty(t, r.ends(7), "it does not wait")
	r.warns("u is held by the relock run around this command")
}

// What is free, though a relock run around it has something like it, is not refused.
func TestRunInsideARunOfSomethingElse(t *testing.T) {
	s := server(t)
	other := redistest.Start(t)
	for name, runs := range map[string][]string{
		"another name":    {"a", "b", "c"},
		"another permit":  {"--slots 2 d", "--slots 2 d"},
		"a larger limit":  {"--slots 1 e", "--slots 2 e"},
		"readers":         {"-s f", "-s f"},
		"another prefix":  {"g", "--prefix p: g"},
		"another server":  {"h", "--redis redis://" + other.Addr() + " h"},
		"without waiting": {"i", "-n j"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, "ran\n", run(t, s, within(runs...)...).ends(0)) })
	}
}

// Somebody else has the lock, or the last permit: the inner run waits for that, whatever is around
// it.
func TestRunInsideARunWaitsForOthers(t *testing.T) {
	s := server(t)
	session := kit.NewSession(t, s)
	for name, runs := range map[string][]string{"a": {"b", "-v a"}, "c": {"--slots 2 c", "-v --slots 2 c"}} {
		l := session.Semaphore("c", 2)
		release := hold(t, session.Mutex("a"))
		if name == "c" {
			release()
			release = hold(t, l)
		}
		r := run(t, s, within(runs...)...)
		r.warns("waiting: " + name + " is held by ")
		release()
		require.Equal(t, "ran\n", r.ends(0))
	}
	// A command may outlive the relock run around it, whose lock is another's by then.
	release := hold(t, session.Mutex("d"))
	cmd := command(s.Addr(), within("-v d")...)
	cmd.Env = append(cmd.Env, "RELOCK_NAME=d", "RELOCK_SESSIONS="+stranger)
	r := start(t, cmd)
	r.warns("waiting: d is held by ")
	release()
	require.Equal(t, "ran\n", r.ends(0))
}

// port returns the port of a server.
func port(s *redistest.Server) string {
	_, port, _ := strings.Cut(s.Addr(), ":")
	return port
}
