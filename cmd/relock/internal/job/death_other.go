//go:build !linux

package job

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dieWithParent leaves it to the guard.
func dieWithParent(*syscall.SysProcAttr) {}

// adoptOrphans leaves them to process 1.
func adoptOrphans() {}

// Die ends this process by a signal if that is one of which Go's handler dies.
func Die(s syscall.Signal) {
	switch s {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGKILL:
		signal.Reset(s)
		_ = syscall.Kill(os.Getpid(), s)
		time.Sleep(time.Second) // until it is delivered
	}
}

// stopGroup stops this process's group, in which there may be others of a pipeline, until somebody
// continues it, if a shell with job control or another process of the session will. One STOP does,
// for all: os/signal cannot give a signal its default action back. If nobody will, or that is not
// known, as in a script, it stops only what is around this process.
func (s *supervisor) stopGroup(by syscall.Signal) {
	parent := os.Getppid()
	theirs, err := unix.Getsid(parent)
	mine, failed := unix.Getsid(0)
	group, unknown := unix.Getpgid(parent)
	if err == nil && failed == nil && unknown == nil && mine == theirs && group != unix.Getpgrp() {
		continued := make(chan os.Signal, 1)
		signal.Notify(continued, syscall.SIGCONT)
		defer signal.Stop(continued)
		_ = syscall.Kill(0, syscall.SIGSTOP)
		<-continued
		return
	}
	signal.Ignore(by)
	_ = syscall.Kill(0, by)
	if by == syscall.SIGTSTP && s.stops != nil {
		signal.Notify(s.stops, by)
	}
}
