package memredis

import (
	"bytes"
	"strconv"
)

// length returns the length of the RESP value at the start of b, or 0 if b has only a part of it.
func length(b []byte) int {
	n := bytes.IndexByte(b, '\n') + 1
	if n == 0 {
		return 0
	}
	size, _ := strconv.Atoi(string(bytes.TrimRight(b[1:n], "\r\n")))
	switch b[0] {
	case '$', '=', '!':
		if size >= 0 { // not a null
			n += size + len("\r\n")
		}
	case '%':
		size *= 2
		fallthrough
	case '*', '~', '>':
		for range size {
			if n >= len(b) {
				return 0
			}
			l := length(b[n:])
			if l == 0 {
				return 0
			}
			n += l
		}
	}
	if n > len(b) {
		return 0
	}
	return n
}

// verb returns the name of a command in upper case: the first element of an array.
func verb(command []byte) string {
	_, rest, _ := bytes.Cut(command, []byte("\n")) // the size of the array
	_, rest, _ = bytes.Cut(rest, []byte("\n"))     // the length of the name
	name, _, _ := bytes.Cut(rest, []byte("\r"))
	return string(bytes.ToUpper(name))
}

// A kind of command, as far as lost replies go.
type kind uint8

const (
	ordinary kind = iota
	upkeep        // of the connection: sent by the client library, and answered
	pushed        // answered by pushes only
)

func kindOf(command []byte) kind {
	switch verb(command) {
	case "SUBSCRIBE", "PSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE":
		return pushed
	case "HELLO", "AUTH", "SELECT", "CLIENT", "PING", "ROLE":
		return upkeep
	case "SET", "DEL":
		if bytes.Contains(command, []byte("relock_session:{")) { // a session's label
			return upkeep
		}
	}
	return ordinary
}
