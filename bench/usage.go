package main

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// usedNow returns what this process has used up.
func usedNow() usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var r unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &r) // fails for bad arguments only
	return usage{
		CPU:        time.Duration(r.Utime.Nano() + r.Stime.Nano()),
		Allocs:     int64(m.Mallocs),
		AllocBytes: int64(m.TotalAlloc),
	}
}

// stateNow returns what this process has, after a garbage collection.
func stateNow() state {
	runtime.GC()
	runtime.GC() // what finalizers and pools let go of
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return state{Memory: int64(m.HeapAlloc + m.StackInuse), Goroutines: runtime.NumGoroutine()}
}

// monotonic returns the time in nanoseconds by a clock that all processes share.
func monotonic() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // fails for bad arguments only
	return ts.Nano()
}
