//go:build !linux

package clock

// suspended has no source here: suspends stay unnoticed.
func suspended() int64 { return 0 }
