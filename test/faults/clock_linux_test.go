package faults_test

import (
	"syscall"
	"time"
	"unsafe"
)

// rawNow reads CLOCK_MONOTONIC, which all processes of a host share: unlike Go's
// time, which each process counts from its own start.
func rawNow() time.Duration {
	const clockMonotonic = 1
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		panic(errno)
	}
	return time.Duration(ts.Nano())
}
