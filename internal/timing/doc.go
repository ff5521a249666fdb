// Package timing holds the small tools for waiting: signals, jittered pauses, and the [Schedule],
// which is the loop of every goroutine that does things at their times.
package timing
