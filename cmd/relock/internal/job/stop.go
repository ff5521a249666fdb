package job

import "syscall"

// stopped is called when the command has stopped. If it wants the terminal, it gets it. If the
// user has stopped it there, this process's group stops as well, so that the shell goes on, and
// both continue together.
func (s *supervisor) stopped(by syscall.Signal) {
	pressed := s.pressed
	s.pressed = false
	switch {
	case by == syscall.SIGTTIN || by == syscall.SIGTTOU:
		s.wants = true
		switch {
		case pressed: // it asked just before the key: a SIGCONT would take the key's signal away
			by = syscall.SIGTSTP
		case s.terminal.foreground():
			s.resume()
			return
		}
	case by == syscall.SIGTSTP:
	case s.terminal.holder() == s.process.group:
		by = syscall.SIGTSTP // it stopped itself there, as a shell does when it is suspended
	default:
		return // somebody stopped the command alone, and will continue it
	}
	s.terminal.take(s.process.group)
	s.stopGroup(by)
	s.resume()
}

// resume lets the command go on, in the foreground if this process is there. While both stood
// still the lock may have been lost, and the command must not go on as if it were held.
func (s *supervisor) resume() {
	if s.wants && s.terminal.foreground() {
		s.terminal.give(s.process.group)
	}
	if !s.job.Held() {
		s.lose()
		return
	}
	s.process.resume()
}
