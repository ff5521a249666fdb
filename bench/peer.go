package main

import (
	"context"
	"time"
)

// library is one lock library on one server, within a worker.
type library interface {
	// mutex returns a lock value. One goroutine at a time uses it.
	mutex(name string) mutex
	close()
}

// mutex is a lock value as the library means it to be used.
type mutex interface {
	Lock(ctx context.Context) error
	Unlock(ctx context.Context) error
}

// refresher is a mutex whose lease the caller has to renew.
type refresher interface {
	mutex
	Refresh(ctx context.Context) error
}

// readWriter is a library that has locks of readers and writers.
type readWriter interface {
	readWrite(name string) (read, write mutex)
}

// keeper is a library that keeps locks between uses if it is told so.
type keeper interface {
	kept(name string) mutex
}

// peer is a library with its options.
type peer struct {
	id       string // of the -peers flag
	title    string // in the table
	note     string // how it is used
	module   string
	renews   bool          // by itself
	poll     time.Duration // 0: waiters are told
	defaults bool          // has the default options, which are not its fastest
	again    bool          // differs from the one before only in how it waits
	own      bool          // is of relock, and none of those that relock is compared with

	// The keys that hold the lease in Redis; more than half of them make a lock.
	keys    func(name string) []string
	connect func(addr string, lease time.Duration) (library, error)
}

// ours is the peer that the others are compared with.
const ours = "relock"

// unlimited is for options that would bound how long a waiter waits: a waiter waits
// until it has the lock or its context ends.
const unlimited = 1 << 30

func allPeers() []*peer {
	return append(append(append(relockPeers(), rueidislockPeers()...), redislockPeers()...), redsyncPeers()...)
}

func peerByID(id string) *peer {
	for _, p := range allPeers() {
		if p.id == id {
			return p
		}
	}
	return nil
}

func oneKey(name string) []string { return []string{name} }
