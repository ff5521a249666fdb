package wire

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A monitor sees all commands that a server runs, those of scripts included.
type monitor struct {
	r     *rig
	lines *bufio.Reader
	seen  int // markers
}

// A run is one run of a script: how it was called, and the commands in it.
type run struct {
	call     []string
	commands [][]string
}

func (r *rig) monitor() *monitor {
	conn, err := net.Dial("tcp", r.server.Addr())
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = conn.Close() })
	_, err = conn.Write([]byte("MONITOR\r\n"))
	require.NoError(r.t, err)
	m := &monitor{r: r, lines: bufio.NewReader(conn)}
	require.NoError(r.t, conn.SetReadDeadline(time.Now().Add(5*time.Minute)))
	line, err := m.lines.ReadString('\n')
	require.NoError(r.t, err)
	require.Equal(r.t, "+OK\r\n", line)
	return m
}

// during returns the runs of scripts during f.
func (m *monitor) during(f func()) (runs []run) {
	m.r.t.Helper()
	m.until() // what was before
	f()
	return m.until()
}

// until returns the runs of scripts until now.
func (m *monitor) until() (runs []run) {
	m.r.t.Helper()
	m.seen++
	marker := fmt.Sprint("marker ", m.seen)
	m.r.must("ECHO", marker)
	for {
		line, err := m.lines.ReadString('\n')
		require.NoError(m.r.t, err)
		from, rest, _ := strings.Cut(line, "] ")
		words := unquote(rest)
		switch {
		case slices.Equal(words, []string{"ECHO", marker}):
			return runs
		case strings.HasSuffix(from, " lua"):
			last := &runs[len(runs)-1]
			last.commands = append(last.commands, words)
		case len(words) > 0 && strings.HasPrefix(words[0], "EVAL"):
			runs = append(runs, run{call: words})
		}
	}
}

// unquote returns the words of a command as MONITOR shows it.
func unquote(line string) (words []string) {
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		quoted, err := strconv.QuotedPrefix(line)
		if err != nil {
			panic(err)
		}
		word, _ := strconv.Unquote(quoted)
		words, line = append(words, word), line[len(quoted):]
	}
	return words
}

func (r run) String() string {
	text := ""
	for _, words := range r.commands {
		text += strings.Join(words, " ") + "\n"
	}
	return text
}

// A hand-over, and waiting for it, is what contended locks cost a server. Commands are counted, since no other program
// has a part in that.
func TestContendedLocksCostFewCommands(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.present("w", "v")
	m := r.monitor()
	hold, first, second := r.lease(Plain, 1), of("w", r.lease(Plain, 2)), of("v", r.lease(Plain, 3))
	most := func(what string, most int, f func()) {
		t.Helper()
		unknown := func(r run) bool { return len(r.commands) == 0 } // the server did not know the script
		runs := slices.DeleteFunc(m.during(f), unknown)
		require.Len(t, runs, 1, what)
		commands := slices.DeleteFunc(runs[0].commands, func(words []string) bool {
			return what == "queueing behind another" && words[0] == "pexpire" && words[1] == plainQueue // once a second
		})
		require.LessOrEqual(t, len(commands), most, "%s:\n%s", what, runs[0])
		t.Log(what, len(commands))
	}
	for range 5 {
		r.take(hold)
		time.Sleep(5 * time.Millisecond) // the next token is not ahead of the clock
		most("queueing as the first", 8, func() { r.queues(first) })
		most("queueing behind another", 6, func() { r.queues(second) })
		most("a poll", 7, func() { require.False(t, r.polls(first).Granted) })
		most("a hand-over", 10, func() { r.end(hold) })
		r.held(first)
		time.Sleep(5 * time.Millisecond)
		most("the last hand-over", 10, func() { r.end(first) })
		most("a release", 3, func() { r.end(second) })
		time.Sleep(5 * time.Millisecond)
		most("acquiring a free lock", 5, func() { r.take(hold) })
		r.end(hold)
	}
}
