package relock

// Queued returns how many calls of Lock for a name wait in this session for a
// goroutine of the session; the one that asks Redis is not counted.
func (s *Session) Queued(name string) int { return s.table.Waiting(name) }
