//go:build !linux

package bench_test

import "time"

// monotonic returns the time in nanoseconds by a clock that all processes share. It
// is not monotonic here.
func monotonic() int64 { return time.Now().UnixNano() }

// nap sleeps for d.
func nap(d time.Duration) { time.Sleep(d) }
