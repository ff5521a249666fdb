package relock

import (
	"strings"

	"github.com/relock-go/relock/internal/wire"
)

// dispatch sees every message that the session hears, before those who wait for one on
// its channel, and reports whether that was all there is to do. It is called by the
// goroutine that reads the connection, and does not block.
//
// What says that a lock was unlocked goes on to those who wait for it, but for the
// message that only Redisson understands.
func (s *Session) dispatch(channel, message string) bool {
	switch {
	case message == wire.ForRedisson:
		return true
	case wire.IsSessionChannel(channel): // also a loss: "lost <hold id> <key>"
		verb, rest, _ := strings.Cut(message, " ")
		if id, key, ok := strings.Cut(rest, " "); ok && verb == "lost" {
			s.e.Forced(id, key)
			return true
		}
		return s.e.Heard(message)
	case wire.IsGrantChannel(channel):
		return s.e.Heard(message)
	}
	return false
}
