package redistest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// One message each, with what the scanner must know about it.
var messages = []struct {
	text string
	kind byte
	name string
	size int
}{
	{"+OK\r\n", '+', "", 0},
	{"-ERR no\r\n", '-', "", 0},
	{":12\r\n", ':', "", 0},
	{"_\r\n", '_', "", 0},
	{"$5\r\na\r\nbc\r\n", '$', "", 0},
	{"$0\r\n\r\n", '$', "", 0},
	{"$-1\r\n", '$', "", 0},
	{"*-1\r\n", '*', "", 0},
	{"*0\r\n", '*', "", 0},
	{"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", '*', "GET", 2},
	{"*3\r\n:1\r\n*2\r\n$1\r\na\r\n*0\r\n$-1\r\n", '*', "", 3},
	{"*2\r\n*1\r\n$1\r\na\r\n$4\r\nlate\r\n", '*', "", 2},
	{"%2\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n*1\r\n:2\r\n", '%', "a", 4},
	{">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\n\r\n\r\n", '>', "message", 3},
	{"|1\r\n$3\r\nttl\r\n:9\r\n*1\r\n|1\r\n+a\r\n+b\r\n$1\r\nx\r\n", '*', "x", 1},
	{"\r\nPING\r\n", 'i', "", 0},
	{"=7\r\ntxt:abc\r\n", '=', "", 0},
}

func TestScannerFindsTheEndHoweverTheBytesCome(t *testing.T) {
	t.Parallel()
	var stream strings.Builder
	for _, m := range messages {
		stream.WriteString(m.text)
	}
	for piece := 1; piece < stream.Len(); piece++ {
		var s scanner
		rest, found, begun := []byte(stream.String()), 0, 0
		for len(rest) > 0 {
			p := rest[:min(piece, len(rest))]
			for len(p) > 0 {
				n, done, err := s.next(p)
				require.NoError(t, err)
				require.Positive(t, n)
				p, rest, begun = p[n:], rest[n:], begun+n
				if done {
					m := messages[found]
					require.Equal(t, len(m.text), begun, m.text)
					require.Equal(t, string(m.kind), string(s.kind), m.text)
					require.Equal(t, m.name, string(s.name), m.text)
					require.Equal(t, m.size, s.size, m.text)
					found, begun = found+1, 0
				}
			}
		}
		require.Equal(t, len(messages), found)
	}
}
