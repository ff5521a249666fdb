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

// stop stops this process until somebody continues it, if a shell with job control or another
// process of the session will.
func stop(syscall.Signal) {
	parent := os.Getppid()
	theirs, err := unix.Getsid(parent)
	mine, failed := unix.Getsid(0)
	group, unknown := unix.Getpgid(parent)
	if err != nil || failed != nil || unknown != nil || mine != theirs || group == unix.Getpgrp() {
		return
	}
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	<-continued
}
