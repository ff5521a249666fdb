// Package job runs a command for as long as a lock is held.
//
// The command has a process group of its own, which gets every signal: from the user, and when
// the lock is lost. It is killed before the lock's local deadline has passed. A guard, a
// second process of this program, is in that group: it kills the group if this process is killed,
// and tells this process of the signals that others send to the group.
//
// To the shell around it this process behaves as its command: it dies of the same signal, and the
// keys that end or stop the command do so to this process's group.
//
// The package knows nothing of Redis. It works on Unix only, and at most one command runs at
// a time, since it waits for all children of the process.
package job
