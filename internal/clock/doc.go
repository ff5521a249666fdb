// Package clock counts time that includes suspends of the machine.
//
// Go's monotonic clock stops while the machine is suspended, and leases in Redis do not. A
// [Clock] adds what CLOCK_BOOTTIME has gained on CLOCK_MONOTONIC. It never goes back, and it needs no wall
// clock: a step of that changes nothing. Elsewhere than on Linux suspends stay unnoticed.
//
// The package starts no goroutines and knows nothing of the module.
package clock
