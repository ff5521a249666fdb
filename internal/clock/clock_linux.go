package clock

import (
	"syscall"
	"unsafe"
)

// bootNanos reads CLOCK_BOOTTIME, which counts suspends.
func bootNanos() (int64, bool) {
	const clockBoottime = 7
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano(), errno == 0
}
