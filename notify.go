package relock

import (
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
	case wire.IsSessionChannel(channel), wire.IsGrantChannel(channel):
		s.e.Heard(message)
	default:
		return false
	}
	return true
}
