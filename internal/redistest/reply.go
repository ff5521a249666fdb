package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// A replyError is an error that the server answered with.
type replyError string

func (e replyError) Error() string { return string(e) }

var errReply = errors.New("redistest: malformed reply")

// readReply reads one reply: a string, an int64, nil, a replyError, or a slice
// of these, into which maps are flattened. The second result says why the
// connection can no longer be read.
func readReply(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return nil, fmt.Errorf("%w: %q", errReply, line)
	}
	kind, text := line[0], line[1:len(line)-2]
	switch kind {
	case '+', ',', '#', '(':
		return text, nil
	case '-':
		return replyError(text), nil
	case '_':
		return nil, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%w: %q", errReply, line)
	}
	switch kind {
	case ':':
		return n, nil
	case '$', '=':
		if n < 0 {
			return nil, nil
		}
		b := make([]byte, n+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		return string(b[:n]), nil
	case '%':
		n *= 2
	case '*', '~', '>':
		if n < 0 {
			return nil, nil
		}
	default:
		return nil, fmt.Errorf("%w: %q", errReply, line)
	}
	values := make([]any, n)
	for i := range values {
		if values[i], err = readReply(r); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// appendCommand appends a command as the array of bulk strings that Redis reads.
func appendCommand(b []byte, args ...string) []byte {
	b = fmt.Appendf(b, "*%d\r\n", len(args))
	for _, arg := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b
}
