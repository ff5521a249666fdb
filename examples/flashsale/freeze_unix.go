//go:build unix

package main

import (
	"os"
	"syscall"
)

// suspend freezes a process: it does nothing any more, and hears nothing, until resume.
func suspend(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// resume lets a frozen process go on.
func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
