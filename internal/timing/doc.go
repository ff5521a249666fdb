// Package timing holds the small tools for waiting: signals, jittered pauses, and a heap of
// timers.
//
// It starts no goroutines and imports no package of the module.
package timing
