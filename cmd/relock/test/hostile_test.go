package test

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// hostile is what a terminal acts on: an escape, a control character of two bytes, and one that is no
// UTF-8.
const hostile = "\x1b]0;owned\a\u009b31m\x9b32m\r"

// acts fails the test if a terminal would act on anything in a text but the end of a line.
func acts(t testing.TB, what, text string) {
	t.Helper()
	for i, r := range text {
		if r != '\n' && (!strconv.IsPrint(r) || r == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD")) {
			t.Fatalf("%s: a terminal acts on %q", what, text)
		}
	}
}

// Whoever may write to Redis must not write to the operator's terminal.
func TestNothingOfRedisActsOnTheTerminal(t *testing.T) {
	s := server(t)
	name := "name" + hostile
	holds(t, s, name, "more", "fields")
	admin(t, s, "HSET", name, "mode", "write"+hostile)
	admin(t, s, "HSET", "fields", stranger+":1:"+hostile, "1")
	admin(t, s, "SET", "relock_session:{"+stranger+"}", "label"+hostile)
	for _, args := range [][]string{
		{"list"}, {"list", "--json"}, {"inspect", name, "more", "fields"}, {"inspect", "--json", name, "more", "fields"},
		{"run", "-n", name, "--", "true"}, {"unlock", "--yes", "free" + hostile}, {"__complete", "inspect", ""},
	} {
		r := run(t, s, args...)
		<-r.ended
		if args[0] != "run" && args[0] != "unlock" {
			require.Zero(t, r.status, args)
			require.Contains(t, r.out.String(), "more", args)
		}
		acts(t, args[0], r.out.String()+r.err.String())
	}
	for _, name := range []string{name, "fields"} {
		x := at(t, command(s.Addr(), "unlock", name))
		x.shows("[y/N]")
		acts(t, "unlock", strings.ReplaceAll(x.out.String(), "\r\n", "\n"))
		x.quits("n\n", 1)
	}
	x := topAt(t, s)
	x.displays(`^more`)
	x.presses("nu", `\[y/N\]`)
	x.presses("n\r", "^holder")
	x.quits(" q", 0)
	for _, bad := range []string{"\x1b]0;", "\u009b", "\x9b32", "\a"} {
		require.NotContains(t, x.out.String(), bad)
	}
}

// A terminal that is not for UTF-8 reads each byte of a letter: of this one the second is CSI there, and the name clears
// the screen.
func TestNoByteOfALetterActsOnTheTerminal(t *testing.T) {
	s := server(t)
	const letter = "\u011b"
	holds(t, s, letter+"2J", "more")
	admin(t, s, "SET", "relock_session:{"+stranger+"}", "label"+letter+"2J")
	for _, args := range [][]string{
		{"list"}, {"list", "--json"}, {"inspect", letter + "2J", "more"}, {"inspect", "--json", letter + "2J", "more"},
		{"run", "-n", letter + "2J", "--", "true"}, {"unlock", "--yes", letter}, {"doctor", letter}, {"__complete", "inspect", ""},
	} {
		for locale, escaped := range map[string]bool{"C.UTF-8": false, "cs_CZ.utf8": false, "en_US.ISO-8859-1": true, "POSIX": true} {
			cmd := command(s.Addr(), args...)
			cmd.Env = append(cmd.Env, "LC_ALL="+locale)
			r := start(t, cmd)
			<-r.ended
			text := r.out.String() + r.err.String()
			require.NotEmpty(t, text)
			for i := range len(text) {
				if escaped {
					require.Less(t, text[i], byte(0x80), "%s with %s: %s", args, locale, text)
				}
			}
			if args[0] != "doctor" && !escaped {
				require.Contains(t, text, letter, "%s with %s", args, locale)
			}
		}
	}
}

// A server that is none of ours: its errors repeat what somebody has stored, and the arguments of commands that
// it does not know.
func TestErrorsOfRedisAreEscapedAndCutShort(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			go func() { // ends with the connection
				defer c.Close()
				buf := make([]byte, 1<<12)
				for n, err := c.Read(buf); err == nil; n, err = c.Read(buf) {
					reply := strings.TrimSuffix(hostile, "\r")
					if bytes.Contains(buf[:n], []byte("qQ1jJ7")) {
						reply = "unknown command `AUTH`, with args beginning with: `user`, `qQ1jJ7`, "
					}
					_, _ = io.WriteString(c, "-ERR "+reply+"\r\n")
				}
			}()
		}
	}()
	for _, line := range []string{"list", "inspect a", "run a -- true", "unlock -y a", "doctor", "doctor --json"} {
		for address, want := range map[string]string{
			l.Addr().String(): "owned", "redis://user:qQ1jJ7@" + l.Addr().String(): "unknown command",
		} {
			r := start(t, command(address, strings.Fields(line)...))
			<-r.ended
			text := r.out.String() + r.err.String()
			require.NotZero(t, r.status, line)
			require.Contains(t, text, want, line)
			require.NotContains(t, text, "qQ1", line)
			acts(t, line, text)
		}
	}
}
