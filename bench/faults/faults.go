package main

import (
	"bytes"
	"errors"
	"time"
)

// A fault is what happens in a run.
type fault struct {
	id    string
	title string
	run   func(*stage) error // returns when the waiters are done, or given up

	tells  bool // the holder lives, and can be told of its loss
	pauses bool // the holder, which no library can keep from a late write
}

var faults = []*fault{
	{id: "killed", title: "holder killed", run: holderKilled},
	{id: "frozen", title: "holder frozen beyond its lease", run: holderFrozen, tells: true,
		pauses: true},
	{id: "cut", title: "holder cut off from Redis", run: holderCut, tells: true},
	{id: "waiter", title: "waiter killed", run: waiterKilled},
	{id: "reply", title: "reply of an acquire lost", run: replyLost},
}

// What makes a run say nothing, so that it is repeated.
var (
	errNotLanded = errors.New("the fault did not happen")
	errTooBusy   = errors.New("before the fault nobody had the lock, or a process did not begin")
)

// strike notes the time of the fault, which is now. Somebody must have the lock, and the others
// wait for it.
func (s *stage) strike() error {
	s.struck = monotonic()
	if s.peer.open {
		return nil
	}
	waiting := s.rec.waiting() == waiterProcs*waitersOfProc
	if !waiting || s.call(s.procs[0]).told != 0 || s.watch.free() > 0 {
		return errTooBusy
	}
	return nil
}

func holderKilled(s *stage) error {
	h, _, err := s.begin()
	if err != nil {
		return err
	}
	if err := s.strike(); err != nil {
		return err
	}
	s.kill(h)
	s.settle()
	return nil
}

// holderFrozen thaws the holder when another has the lock. Nearly always that is between its last
// look at whether it has the lock, and its write.
func holderFrozen(s *stage) error {
	h, _, err := s.begin()
	if err != nil {
		return err
	}
	if err := s.strike(); err != nil {
		return err
	}
	if err := h.freeze(); err != nil {
		return err
	}
	frozen := monotonic()
	// A library that leaves the lock taken is seen by settle.
	_ = s.await("", 2*s.lease, func() bool { return s.rec.first(s.struck) != 0 })
	if err := s.sleep(section / 2); err != nil { // that one is at work
		return err
	}
	if s.call(h).written > frozen+int64(step) {
		return errNotLanded
	}
	s.mustKnow = monotonic()
	if err := h.thaw(); err != nil {
		return err
	}
	s.settle()
	return s.heard(h, s.lease)
}

// heard waits for the holder to be told of its loss, and ends its section.
func (s *stage) heard(h *proc, within time.Duration) error {
	_ = s.await("", within, func() bool { return s.call(h).told != 0 })
	return h.tell(order{})
}

// holderCut swallows what the holder and Redis send each other, on open connections and new ones.
// The store is not cut off.
func holderCut(s *stage) error {
	h, _, err := s.begin()
	if err != nil {
		return err
	}
	if err := s.strike(); err != nil {
		return err
	}
	s.proxy.Blackhole(true)
	s.settle()
	if err := s.heard(h, 2*s.lease-s.after(s.struck)); err != nil {
		return err
	}
	if s.proxy.Dropped() == 0 {
		return errNotLanded
	}
	if s.mustKnow = s.watch.gone(s.struck); s.mustKnow == 0 {
		s.mustKnow = s.struck + int64(s.lease)
	}
	return nil
}

// waiterKilled kills the process that waits longest, shortly before the holder unlocks.
func waiterKilled(s *stage) error {
	h, waiters, err := s.begin()
	if err != nil {
		return err
	}
	if err := s.strike(); err != nil {
		return err
	}
	s.kill(waiters[0])
	if err := s.sleep(s.upTo(300 * time.Millisecond)); err != nil {
		return err
	}
	s.since = monotonic()
	if err := h.tell(order{}); err != nil {
		return err
	}
	if err := s.await("the holder to unlock", soon, func() bool {
		return s.call(h).left != 0
	}); err != nil {
		return err
	}
	s.settle()
	return nil
}

// replyLost closes the connection of a caller when Redis has executed its acquisition, and before
// the caller hears of it. It can connect at once.
func replyLost(s *stage) error {
	h, err := s.start()
	if err != nil {
		return err
	}
	landed := s.proxy.DropReplies(func(request []byte) bool {
		return bytes.Contains(request, []byte(lockName))
	})
	if err := h.tell(order{Lock: 1, Section: section}); err != nil {
		return err
	}
	select {
	case <-landed:
	case <-time.After(soon):
		return errNotLanded
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
	s.struck = monotonic()
	if _, err := s.waiters(); err != nil {
		return err
	}
	s.settle()
	return nil
}
