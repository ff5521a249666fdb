package memredis

import (
	"time"
)

// A stream is one direction of a connection: what is under way to its reader. The process's
// mutex guards it.
type stream struct {
	partial []byte        // written, and not yet a whole message
	queue   []piece       // under way
	last    time.Time     // when the last of them arrives
	rest    []byte        // of a message that was too long for its reader's buffer
	ended   bool          // its end has arrived
	wake    chan struct{} // signals that the reader must look again
}

// A piece is a message, or the end of the stream.
type piece struct {
	data []byte
	due  time.Time // arrives then, if the network is not cut
}

func newStream() stream { return stream{wake: make(chan struct{}, 1)} }

func (s *stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// send puts a message, or with nil the end of the stream, under way for d.
func (s *stream) send(data []byte, d time.Duration) {
	due := time.Now().Add(d)
	if due.Before(s.last) {
		due = s.last // in order, if the delay has become shorter
	}
	s.last = due
	s.queue = append(s.queue, piece{data, due})
	s.signal()
}

// messages returns the whole messages that end in b, and keeps the rest.
func (s *stream) messages(b []byte) (whole [][]byte) {
	s.partial = append(s.partial, b...)
	for {
		n := length(s.partial)
		if n == 0 {
			return whole
		}
		whole = append(whole, s.partial[:n:n])
		if s.partial = s.partial[n:]; len(s.partial) == 0 {
			s.partial = nil
		}
	}
}

// hurry makes everything under way arrive now.
func (s *stream) hurry() {
	s.last = time.Time{}
	for i := range s.queue {
		s.queue[i].due = time.Time{}
	}
	s.signal()
}
