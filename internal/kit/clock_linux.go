package kit

import (
	"syscall"
	"time"
	"unsafe"
)

// Monotonic returns the time in nanoseconds by a clock that all processes of a host share,
// also those of Java: unlike Go's time, which each process counts from its own start.
func Monotonic() int64 {
	const clockMonotonic = 1
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		panic(errno)
	}
	return ts.Nano()
}

// Nap sleeps for d. time.Sleep takes a whole millisecond for less than one, in a process
// that does nothing else.
func Nap(d time.Duration) {
	ts := syscall.NsecToTimespec(int64(d))
	for syscall.Nanosleep(&ts, &ts) == syscall.EINTR {
	}
}
