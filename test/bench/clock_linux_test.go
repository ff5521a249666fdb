package bench_test

import (
	"syscall"
	"time"
	"unsafe"
)

// monotonic returns the time in nanoseconds by a clock that all processes share.
func monotonic() int64 {
	const clockMonotonic = 1
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0)
	benchCheck(errno == 0, "clock_gettime: %v", errno)
	return ts.Nano()
}

// nap sleeps for d. time.Sleep takes a whole millisecond for less than one, in a process
// that does nothing else.
func nap(d time.Duration) {
	ts := syscall.NsecToTimespec(int64(d))
	for syscall.Nanosleep(&ts, &ts) == syscall.EINTR {
	}
}
