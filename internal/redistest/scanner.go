package redistest

import (
	"bytes"
	"errors"
	"strconv"
)

const (
	longestHeader = 64 << 10 // of a line that begins a value
	longestName   = 32       // of a first element worth keeping
)

var errNotRESP = errors.New("redistest: not RESP")

// A scanner finds where RESP messages end in a stream of bytes that comes in
// arbitrary pieces. It keeps no payloads. The zero value is ready for use.
type scanner struct {
	// About the message in progress, or the one that just ended.
	kind byte   // its first byte; 'i' for an inline command; 0 before it begins
	size int    // number of elements, of an aggregate
	name []byte // its first element, if that is a short bulk string

	line    []byte      // the header line in progress
	payload int         // bytes of a bulk string still to come, with its line end
	naming  bool        // that bulk string is the name
	open    []aggregate // the aggregates in progress, outermost first
}

// An aggregate is an array, map, set, push or attribute in progress.
type aggregate struct {
	left      int  // elements still to come
	attribute bool // is no element itself, but says something about the next
}

// next passes over p to the end of the message in progress. It returns how many
// bytes of p belong to that message, and whether it ends there; the next call
// then begins another. After an error the stream cannot be followed any more.
func (s *scanner) next(p []byte) (n int, done bool, err error) {
	if len(s.open) == 0 && len(s.line) == 0 && s.payload == 0 {
		s.kind, s.size, s.name = 0, 0, s.name[:0]
	}
	for n < len(p) && !done {
		if s.payload > 0 {
			take := min(s.payload, len(p)-n)
			if s.naming {
				s.name = append(s.name, p[n:n+take]...)
			}
			n += take
			if s.payload -= take; s.payload == 0 {
				s.name = bytes.TrimSuffix(s.name, []byte("\r\n"))
				s.naming = false
				done = s.element()
			}
			continue
		}
		end := bytes.IndexByte(p[n:], '\n')
		if end < 0 {
			s.line = append(s.line, p[n:]...)
			if len(s.line) > longestHeader {
				return n, false, errNotRESP
			}
			return len(p), false, nil
		}
		s.line = append(s.line, p[n:n+end]...)
		n += end + 1
		done, err = s.header(bytes.TrimSuffix(s.line, []byte("\r")))
		s.line = s.line[:0]
		if err != nil {
			return n, false, err
		}
	}
	return n, done, nil
}

// header reads the line that begins a value, and reports whether the message ends with it.
func (s *scanner) header(line []byte) (done bool, err error) {
	if len(line) == 0 {
		if len(s.open) > 0 {
			return false, errNotRESP
		}
		return false, nil // Redis ignores empty lines between commands
	}
	kind := line[0]
	if len(s.open) == 0 && kind != '|' {
		s.kind = kind
	}
	switch kind {
	case '+', '-', ':', '_', ',', '#', '(':
		return s.element(), nil
	case '$', '=', '!', '*', '~', '>', '%', '|':
	default:
		if len(s.open) > 0 {
			return false, errNotRESP
		}
		s.kind = 'i'
		return true, nil
	}
	size, err := strconv.Atoi(string(line[1:]))
	if err != nil {
		return false, errNotRESP
	}
	switch kind {
	case '$', '=', '!':
		if size < 0 {
			return s.element(), nil
		}
		s.payload = size + len("\r\n")
		s.naming = len(s.open) == 1 && len(s.name) == 0 && s.open[0].left == s.size && size <= longestName
		return false, nil
	case '%', '|':
		size *= 2
	}
	if len(s.open) == 0 && kind != '|' {
		s.size = max(size, 0)
	}
	if size > 0 {
		s.open = append(s.open, aggregate{left: size, attribute: kind == '|'})
		return false, nil
	}
	return kind != '|' && s.element(), nil
}

// element notes the end of a value, and reports whether the message ends with it.
func (s *scanner) element() (done bool) {
	for len(s.open) > 0 {
		inner := &s.open[len(s.open)-1]
		if inner.left--; inner.left > 0 {
			return false
		}
		attribute := inner.attribute
		s.open = s.open[:len(s.open)-1]
		if attribute {
			return false
		}
	}
	return true
}
