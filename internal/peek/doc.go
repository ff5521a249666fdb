// Package peek lets the tests of this module look into a session of the root package, which
// sets its variables. Nothing but tests calls them, and the command relock [Open].
//
// It starts no goroutines.
package peek
