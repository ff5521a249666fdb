package relock

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
)

// kind is a type of lock, or side of one, as far as Redis is concerned.
type kind uint8

const (
	plain kind = iota // Mutex
	fair              // FairMutex
	write             // RWMutex, write side
	read              // RWMutex, read side
)

// lockKeys are the names that a lock has on the wire.
type lockKeys struct {
	name    string // the lock itself, a hash
	fence   string
	channel string
	aux     string // fair: the queue; read and write: the intents
	prefix  string // fair: of the channels of grants; read and write: of the rwlock_timeout keys
}

func newLockKeys(k kind, name string) lockKeys {
	keys := lockKeys{fence: prefixed(prefixFence, name), channel: prefixed(prefixChannel, name)}
	// Kept as a part of what is kept anyway, so that the caller's copy need not be.
	keys.name = keys.fence[strings.LastIndex(keys.fence, name):][:len(name)]
	switch k {
	case fair:
		keys.aux = prefixed(prefixQueue, name)
		keys.prefix = prefixed(prefixGrant, name) + ":"
	case write, read:
		keys.channel = prefixed(prefixRW, name)
		keys.aux = prefixed(prefixIntent, name)
		keys.prefix = suffixed(name)
	}
	return keys
}

// timeout returns Redisson's key for the lease of one hold of a reader.
func (k *lockKeys) timeout(id string) string { return k.prefix + id + ":rwlock_timeout:1" }

// lease is one acquisition from Redis: what a process holds there under one hold
// id, whichever of its goroutines has it now.
type lease struct {
	keys    *lockKeys
	id      string        // hold id, "<session>:<n>"; n is new for every acquisition; + ":write" for a writer
	length  time.Duration // time to live in Redis
	kind    kind
	fixed   bool  // not renewed
	claim   bool  // it is a claim on a FairMutex, to be renewed to its length at once
	unclear bool  // an attempt of this id got no reply and may be executed yet
	sent    int64 // when the acquisition was sent
	since   int64 // when it was acquired: start of the tenure

	deadline atomic.Int64 // until when it is certain; moved by renewals
	bounded  atomic.Bool  // the lock value of its owner has a WithMaxHold

	// guarded by watchdog.mu
	stopped  bool  // no renewal any more: it is being released
	renewing bool  // waits for a renewal to be sent, or for its reply
	index    int   // in the watchdog's heap; -1: not there
	at       int64 // when the watchdog looks at it next
	maxEnd   int64 // no renewal after that; 0: no bound
	boundFor *hold // the hold that it was passed to whose bound maxEnd is; nil before
	release  *ioCtx

	token, top int64 // fencing token now, and last of the block; guarded by the arbiter's shard
}

type hold = arbiter.Hold[*lease]

// margin is what a lease is believed to be shorter than it is: clocks of two hosts
// drift apart by at most 1000 ppm while both are slewed as far as NTP goes, twice
// that is assumed; and Redis counts milliseconds.
func margin(lease time.Duration) time.Duration { return lease/500 + 2*time.Millisecond }

// certainUntil returns the local deadline of a lease of which the acquisition or
// renewal was sent at the given time.
func (l *lease) certainUntil(sent int64) int64 { return sent + int64(l.length-margin(l.length)) }

// lastSent returns when the acquisition or renewal was sent that the deadline is of.
func (l *lease) lastSent() int64 { return l.deadline.Load() - int64(l.length-margin(l.length)) }

// certain tells whether the lease is ours for certain.
func certain(l *lease, now int64) bool { return now < l.deadline.Load() }

// pass is asked by the arbiter whether the lease may go to another goroutine.
func (s *Session) pass(l *lease, now int64) (int64, bool) {
	if l.fixed || now-l.since >= int64(s.cfg.tenure) || l.token >= l.top ||
		l.deadline.Load()-now < int64(l.length/2) || s.closed() {
		return 0, false
	}
	l.token++
	return l.token, true
}

// newLease returns a lease with an id of its own, not yet acquired.
func (b *lockBase) newLease(k kind) *lease {
	s, c := b.s, &b.cfg
	l := &lease{keys: &b.keys, kind: k, length: s.cfg.lease, index: -1}
	if c.max > 0 {
		l.bounded.Store(true)
	}
	if c.lease > 0 {
		l.length, l.fixed = c.lease, true
	}
	l.id = s.newID(k)
	return l
}

func (s *Session) newID(k kind) string {
	var buf [64]byte
	b := append(buf[:0], s.id...)
	b = append(b, ':')
	b = strconv.AppendUint(b, s.seq.Add(1), 10)
	if k == write {
		b = append(b, ":write"...)
	}
	return string(b)
}
