package job

import (
	"os"
	"syscall"
	"time"
)

const (
	pollGone  = 20 * time.Millisecond // how often to look whether a group has ended
	afterKill = time.Second           // for what is killed to be gone
)

// supervisor follows a running command. Everything happens in supervise's goroutine.
type supervisor struct {
	job      *Job
	process  *process
	terminal *terminal
	stops    chan os.Signal // of the terminal, for this process; nil if they are ignored

	ended     bool                    // the command has ended; others of its group may live
	status    int                     // its exit status
	killedBy  syscall.Signal          // by which it has ended; 0 if it has by itself
	alone     bool                    // the guard has left the group
	signalled bool                    // the group was told to end
	decided   bool                    // by this process itself
	sent      map[syscall.Signal]bool // what this process has passed on to the group
	echoes    map[syscall.Signal]int  // what it has sent to its own group, and will receive
	killAt    time.Time               // when the group is killed; zero if it need not end
	killed    bool
	warned    bool // the group was told because of the deadline or a loss
	lost      bool // the lock is lost
	wants     bool // the command has, or asked for, the terminal
	pressed   bool // the terminal's key to stop was passed on, and the command has not stopped since

	unconfirmed bool // Redis did not confirm the lock in time

	deadline time.Time     // the latest that was seen
	third    time.Duration // of what was left then
}

// supervise returns when the command has ended, and if it was told to, when its group has.
func (s *supervisor) supervise() {
	s.sent, s.echoes = map[syscall.Signal]bool{}, map[syscall.Signal]int{}
	s.wants = s.terminal.given
	heard := s.job.Guard.heard
	timer := time.NewTimer(s.act()) // it sees the deadline first: a stop may be the first event
	defer timer.Stop()
	lost, wanted, events := s.job.Lost, s.job.Wanted, (<-chan event)(s.process.events)
	for {
		select {
		case e, ok := <-events:
			switch {
			case !ok:
				events, s.ended = nil, true
				s.job.Guard.leave()
			case e.stopped != 0:
				s.stopped(e.stopped)
			default:
				s.status, s.killedBy = e.status, e.killed
			}
		case sig, ok := <-heard:
			if !ok {
				heard, s.alone = nil, true
				break
			}
			s.told(sig)
		case sig := <-s.job.Signals:
			s.passOn(sig.(syscall.Signal))
		case <-s.stops:
			s.pressed = true
			s.process.signal(syscall.SIGTSTP)
		case <-lost:
			lost = nil
			s.lose()
		case <-wanted: // it keeps the lock for as long as it takes to end
			wanted, s.signalled, s.decided = nil, true, true
			s.job.Report("somebody else wants the lock; ending the command")
			s.process.signal(syscall.SIGTERM)
		case <-timer.C:
		}
		if s.ended && s.alone && s.finished() {
			return
		}
		timer.Reset(s.act())
	}
}

// passOn sends the group a signal that the user has sent to this process.
func (s *supervisor) passOn(sig syscall.Signal) {
	if s.echoes[sig] > 0 {
		s.echoes[sig]--
		return
	}
	s.signalled, s.sent[sig] = true, true
	s.process.signal(sig)
}

// told is called when the group got a signal from others. If a key of the terminal has sent it, it
// was meant for this process's group as well: if the command had no group of its own, the kernel
// would have sent it to both. So a script around this process ends.
func (s *supervisor) told(sig syscall.Signal) {
	s.signalled = true
	if isKey(sig) && !s.sent[sig] && s.terminal.passed() {
		s.echoes[sig]++
		_ = syscall.Kill(0, sig)
	}
}

// isKey reports whether a terminal has a key that ends programs by that signal.
func isKey(s syscall.Signal) bool { return s == syscall.SIGINT || s == syscall.SIGQUIT }

// finished reports whether nothing is left to wait for after the command's end. What a command
// leaves in the background by itself goes on, without the lock. What one leaves that was killed is
// told to end.
func (s *supervisor) finished() bool {
	switch {
	case !s.signalled && isKey(s.killedBy) && s.terminal.passed():
		s.told(s.killedBy) // before the guard was in the group
	case !s.signalled && s.killedBy == 0 || s.process.gone():
		return true
	case !s.signalled:
		s.signalled = true
		s.job.Report("the command was killed (%v); ending what it has left", s.killedBy)
		s.process.signal(syscall.SIGTERM)
	case s.killed:
		return time.Since(s.killAt) > afterKill // it cannot be killed
	case s.killAt.IsZero():
		s.killAt = time.Now().Add(s.job.Grace)
	}
	return false
}

// lose ends the group because somebody else may have the lock.
func (s *supervisor) lose() {
	if s.lost {
		return
	}
	s.lost = true
	s.job.Report("the lock is lost%s; ending the command", s.why())
	s.end()
}

// why returns what is known of why the lock is lost, or about to be, to follow a statement.
func (s *supervisor) why() string {
	if why := s.job.Why(); why != "" {
		return ": " + why
	}
	return ""
}

// end tells the group to end, and sets when it is killed: before the deadline, if that is known.
func (s *supervisor) end() {
	s.warned, s.signalled, s.decided = true, true, true
	now := time.Now()
	at := now.Add(s.job.Grace)
	deadline, ok := s.job.Deadline()
	if !ok {
		deadline = s.deadline // of a hold that has ended; or none is known
	}
	if d := deadline.Add(-s.lead(deadline) / 10); !deadline.IsZero() && d.Before(at) {
		at = d
	}
	if s.killAt.IsZero() || at.Before(s.killAt) {
		s.killAt = at
	}
	if !s.killAt.After(now) {
		return // too late for TERM
	}
	s.process.signal(syscall.SIGTERM)
}

// lead returns how long before a deadline the group is told to end: at most a third of what was
// left when the deadline was first seen, since a lease that was just acquired may still be short.
func (s *supervisor) lead(deadline time.Time) time.Duration {
	const drift = 10 * time.Millisecond // between looks at the same deadline
	if deadline.Sub(s.deadline).Abs() > drift {
		s.deadline = deadline
		s.third = time.Until(deadline) / 3
	}
	return min(s.job.Lead, s.third)
}

// bounded reports whether a deadline is that of the longest hold, and not of a lease that may be renewed. Deadlines
// are earlier than leases end, by a little.
func (s *supervisor) bounded(deadline time.Time) bool {
	return !s.job.MaxHold.IsZero() && time.Until(s.job.MaxHold) <= time.Until(deadline)*101/100+boundSlack
}

const boundSlack = 50 * time.Millisecond

// act does what is due, and returns when to look again.
func (s *supervisor) act() time.Duration {
	now := time.Now()
	next := time.Hour
	deadline, ok := s.job.Deadline()
	if !s.job.MaxHold.IsZero() && !s.warned {
		if next = s.job.MaxHold.Add(-s.job.Grace).Sub(now); next <= 0 {
			s.job.Report("--max-hold is over in %v; ending the command", s.job.MaxHold.Sub(now).Round(time.Millisecond))
			s.end()
		}
	}
	if ok && !s.warned && !s.bounded(deadline) {
		left := deadline.Add(-s.lead(deadline)).Sub(now)
		if next = min(next, left); left <= 0 {
			s.job.Report("the lock is valid for %v only%s; ending the command",
				deadline.Sub(now).Round(time.Millisecond), s.why())
			s.unconfirmed = true
			s.end()
		}
	}
	if !s.killAt.IsZero() && !s.killed {
		if next = min(next, s.killAt.Sub(now)); !s.killAt.After(now) {
			s.killed = true
			s.process.signal(syscall.SIGKILL)
		}
	}
	if s.ended || next <= 0 {
		next = pollGone
	}
	return next
}
