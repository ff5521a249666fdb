package clock

import (
	"syscall"
	"unsafe"
)

// suspended returns for how long the machine has been suspended since it booted: CLOCK_BOOTTIME
// counts that, and CLOCK_MONOTONIC does not. A pause between the two readings makes the result
// too small, never too large. Go's own clock is not compared with either: in a bubble of
// testing/synctest it shows a time of its own.
func suspended() int64 {
	const clockMonotonic, clockBoottime = 1, 7
	boot := read(clockBoottime)
	return boot - read(clockMonotonic)
}

func read(id uintptr) int64 {
	var ts syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}
