// Package memredis is a Redis in memory, and a network to it that delays, cuts and breaks
// connections on purpose. It is what relocktest is made of.
//
// A [Server] is a miniredis without a listener. A [Process] is one client's part of the network:
// faults are injected per process. A connection is a pair of queues of RESP messages, each with
// the time when it arrives, under one mutex per process; nothing runs between its two ends. So
// the package works in a bubble of testing/synctest, where nothing may block on a socket, or on
// a mutex whose holder waits.
//
// What a connection guarantees is what TCP does: messages arrive in order, once, or not at all
// if it breaks. Writing never blocks.
//
// # Goroutines
//
// The package starts none. Those of miniredis, three for each connection and two for each
// subscriber, end with [Server.Close].
package memredis
