//go:build !linux

package job

import "syscall"

// dieWithParent leaves it to the guard.
func dieWithParent(*syscall.SysProcAttr) {}
