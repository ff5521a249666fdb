// Package lockerr holds the errors of the public API: its sentinels, and the failure of one
// operation. The root package re-exports the sentinels.
//
// Every text is one line that starts with "relock: " once, however deep errors are wrapped, and errors.Is
// finds the sentinel, the error of the context, its cause, and the error of Redis.
//
// It starts no goroutines and imports no package of the module.
package lockerr
