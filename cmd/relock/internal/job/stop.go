package job

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// stopped is called when the command has stopped. If it wants the terminal, it gets it. If the
// user has stopped it there, this process stops as well, so that the shell goes on, and both
// continue together.
func (s *supervisor) stopped(by syscall.Signal) {
	if by != syscall.SIGTSTP && by != syscall.SIGTTIN && by != syscall.SIGTTOU {
		return // somebody stopped the command alone, and will continue it
	}
	s.wants = s.wants || by != syscall.SIGTSTP
	if by != syscall.SIGTSTP && s.terminal.foreground() {
		s.resume()
		return
	}
	s.terminal.take(s.process.group)
	if supervised() {
		pause()
	}
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
	s.process.signal(syscall.SIGCONT)
}

// pause stops this process until somebody continues it.
func pause() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	<-continued
}

// supervised reports whether the parent is a shell with job control, or some other process of
// the session that will continue this one. The kernel stops no group without one.
func supervised() bool {
	parent := os.Getppid()
	if parent == 0 {
		return false
	}
	theirs, err := unix.Getsid(parent)
	if err != nil {
		return false
	}
	mine, err := unix.Getsid(0)
	if err != nil || mine != theirs {
		return false
	}
	group, err := unix.Getpgid(parent)
	return err == nil && group != unix.Getpgrp()
}
