//go:build !linux

package kit

import "time"

// Monotonic returns the time in nanoseconds by a clock that all processes share. It
// is not monotonic here.
func Monotonic() int64 { return time.Now().UnixNano() }

// Nap sleeps for d.
func Nap(d time.Duration) { time.Sleep(d) }
