package relock

import "github.com/relock-go/relock/internal/arbiter"

// QueuedRW returns how many readers and writers of an RWMutex wait in this session for a
// goroutine of the session; those that ask Redis are not counted.
func (s *Session) QueuedRW(name string) (readers, writers int) {
	return s.rws.Waiting(name, arbiter.Read), s.rws.Waiting(name, arbiter.Write)
}

// KnowsRW reports whether anything of an RWMutex is remembered in this session.
func (s *Session) KnowsRW() bool { return s.rws.Len() > 0 }
