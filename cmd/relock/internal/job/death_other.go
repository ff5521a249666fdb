//go:build !linux

package job

import "syscall"

// dieWithParent leaves it to the guard.
func dieWithParent(*syscall.SysProcAttr) {}

// adoptOrphans leaves them to process 1.
func adoptOrphans() {}
