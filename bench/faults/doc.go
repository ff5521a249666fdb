// Command faults runs relock and other Go libraries for locks on Redis through five faults, many
// times each, and prints a table of what went wrong. README.md says what is counted.
//
// Everything that may die, freeze or lose the network is a process of its own: a worker, which is
// this program again. The main process tells the workers what to do and notes what they say, with
// times of a clock that all processes share. It reads in Redis who has the lock, and works out what
// a store would have done with the holders' writes.
//
// The files, each of which uses those above it: peer.go and peer_*.go, how each library is used;
// worker.go, a process that locks; proc.go, the main process's side of it; record.go, what was
// said and written; watch.go, who has the lock in Redis; stage.go, one run; faults.go, the five
// faults; verdict.go, what went wrong in a run; table.go and main.go.
package main
