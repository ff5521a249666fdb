package relock

// dispatch hands every message that the session hears to its engine, which reports whether that was all there is to
// do with it. It is called by the goroutine that reads the connection, and does not block.
func (s *Session) dispatch(channel, message string) bool { return s.e.Heard(channel, message) }
