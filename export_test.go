package relock

// Queued returns how many calls of Lock for a name wait in this session for a
// goroutine of the session; the one that asks Redis is not counted.
func (s *Session) Queued(name string) int { return s.table.Waiting(name) }

// Listens reports whether a call of this session waits for messages of a lock.
func (s *Session) Listens(name string) bool {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	for _, channel := range []string{newLockKeys(plain, name).channel, newLockKeys(write, name).channel} {
		if t := s.hub.topics[channel]; t != nil && len(t.listeners) > 0 {
			return true
		}
	}
	return false
}

// Watchers returns how many watch the end of the hold that the session has of a lock.
func (s *Session) Watchers(name string) int { return s.table.Lookup(name).Watchers() }

// RedlockQueue returns how many calls of Lock wait in this process for another one.
func RedlockQueue(r *Redlock) int { return r.s.reds.Waiting(r.h.Name()) }
