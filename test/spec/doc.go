// Package spec is the specification of relock's locks as a program: what the scripts do to a lock in
// Redis, and as much of the client as the protocol needs. It is explored, every state of small
// worlds, and compared with what really happens. docs/proof.md says what that shows.
//
// Its files, in the order in which to read them:
//
//	state.go     what Redis has of one name; tokens (token.lua)
//	queue.go     the queue, who comes next, Redisson's turn (queue.lua)
//	mutex.go     the scripts of Mutex and FairMutex
//	rw.go        those of the two sides of a RWMutex
//	permits.go   those of a Semaphore
//	client.go    a call, from asking to release; a session (internal/acquire, queue, lease)
//	world.go     calls, sessions, the network and its faults; the properties
//	redlock.go   the tokens of a Redlock over three servers
//	explore.go   every state of a world, breadth first
//	bugs.go      deliberate bugs, which the properties find
//	record.go    scripts that say what they have done
//	trace.go     what they say is compared with the specification
//
// Each method names the script or function that it stands for. Time stands still while a script
// runs, and a script is one step.
package spec
