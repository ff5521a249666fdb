package clock

import (
	"syscall"
	"unsafe"
)

// suspended returns for how long the machine has been suspended since it booted: CLOCK_BOOTTIME
// counts that, and CLOCK_MONOTONIC does not. A pause between the two readings makes the result
// too small, never too large.
func suspended() (int64, bool) {
	const clockMonotonic, clockBoottime = 1, 7
	boot, ok := read(clockBoottime)
	mono, same := read(clockMonotonic)
	return boot - mono, ok && same
}

func read(id uintptr) (int64, bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano(), errno == 0
}
