package arbiter_test

import (
	"slices"
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
	"pgregory.net/rapid"
)

// rwSession is a process: its arbiter, its calls, and what it holds.
type rwSession struct {
	*rwWorld
	handles [2][]*rwHandle // by side
	owners  []*arbiter.Owner
	calls   []*rwStep
	locks   []rwLock
	holds   map[*rwHold]*rwHandle // those that are live, and what they were taken through
	parted  map[*rwHold]*rwHandle // and of which the lease was released by an unlock
	ending  []*rwLease            // to be released from Redis
}

// rwLock is one lock that was granted and is not unlocked yet.
type rwLock struct {
	via   *rwHandle
	owner *arbiter.Owner
	side  arbiter.Side
}

// rwStep is a call that has not come to its end.
type rwStep struct {
	*rwCall
	side  arbiter.Side
	wait  bool
	at    rwPhase
	st    arbiter.Standing[*rwLease]
	lease *rwLease // asked for, or asked about
	reply rwReply
}

type rwPhase uint8

const (
	rwQueued  rwPhase = iota
	rwAsking          // between two tries
	rwSent            // Redis has not executed it yet
	rwReplied         // it has
)

type rwReply uint8

const (
	rwRefused rwReply = iota
	rwGranted
	rwAlone // granted, and nobody may join
	rwGone
)

// rwModel drives two sessions against one Redis, step by step.
type rwModel struct {
	r        *rapid.T
	redis    rwRedis
	sessions []*rwSession
	kind     bool // Redis grants whatever it may
}

func newRWModel(t testing.TB, r *rapid.T) *rwModel {
	m := &rwModel{r: r, redis: rwRedis{readers: make(map[*rwLease]bool)}}
	for range 2 {
		s := &rwSession{rwWorld: newRWWorld(discardRW{t}), holds: make(map[*rwHold]*rwHandle), parted: make(map[*rwHold]*rwHandle)}
		s.owners = []*arbiter.Owner{nil, new(arbiter.Owner), new(arbiter.Owner)}
		for side := range s.handles {
			s.handles[side] = []*rwHandle{s.handle(), s.handle()}
		}
		m.sessions = append(m.sessions, s)
	}
	return m
}

// discardRW is a testing.TB of which a world made for one run of a property may not
// take the cleanup.
type discardRW struct{ testing.TB }

func (discardRW) Cleanup(func()) {}

func rwPick[T any](m *rwModel, from []T, what string) T {
	return from[rapid.IntRange(0, len(from)-1).Draw(m.r, what)]
}

func (m *rwModel) chance(n int) bool { return rapid.IntRange(0, n-1).Draw(m.r, "chance") == 0 }

// got records a lock that was granted.
func (s *rwSession) got(via *rwHandle, o *arbiter.Owner, side arbiter.Side, h *rwHold) {
	s.locks = append(s.locks, rwLock{via, o, side})
	if h != nil {
		s.holds[h] = via
	}
}

// end: a call has come to its end.
func (s *rwSession) end(c *rwStep) {
	s.calls = slices.DeleteFunc(s.calls, func(d *rwStep) bool { return d == c })
	s.Free(c.Waiter)
}

func (s *rwSession) granted(c *rwStep, h *rwHold) {
	if h == nil || h.Owner != c.Owner || h.Side() != c.side {
		s.t.Fatalf("granted as %+v", h)
	}
	s.got(c.Via, c.Owner, c.side, h)
	s.end(c)
}

func (m *rwModel) lock(s *rwSession) {
	side := rwPick(m, []arbiter.Side{readSide, readSide, writeSide}, "side")
	via, o := rwPick(m, s.handles[side], "handle"), rwPick(m, s.owners, "owner")
	if side == readSide && m.chance(3) {
		if s.Join(via, o, true) {
			s.got(via, o, side, s.Read(via, o))
		}
		return
	}
	c := &rwStep{side: side, wait: !m.chance(3)}
	c.rwCall = s.enter(via, o, side, !m.chance(4), c.wait)
	switch c.verdict {
	case arbiter.Entered, arbiter.Joined:
		h := s.Read(via, o)
		if side == writeSide {
			h = nil
		}
		s.got(via, o, side, h)
		s.Free(c.Waiter)
	case arbiter.Busy, arbiter.Upgrade, arbiter.UnlockFirst:
		s.Free(c.Waiter)
	case arbiter.Queued:
		s.calls = append(s.calls, c)
	case arbiter.Ask:
		c.at = rwAsking
		s.calls = append(s.calls, c)
	}
}

// look: a queued call finds out whether it has been answered.
func (m *rwModel) look(s *rwSession, c *rwStep) {
	select {
	case <-c.C:
	default:
		return
	}
	switch h, ask := s.Answer(c.Waiter); {
	case h != nil:
		s.granted(c, h)
	case ask:
		c.at = rwAsking
	case c.wait:
		m.r.Fatal("a call that waits was refused")
	default:
		s.end(c)
	}
}

// send: a call asks Redis.
func (m *rwModel) send(s *rwSession, c *rwStep) {
	c.at = rwSent
	if c.side == writeSide {
		c.lease = newRWLease(rapid.IntRange(0, 2).Draw(m.r, "passes"))
		return
	}
	h, st := s.Standing(c.Waiter)
	if h != nil {
		s.granted(c, h)
		return
	}
	if st.Refused {
		s.Quit(c.Waiter)
		s.end(c)
		return
	}
	c.st, c.lease = st, newRWLease(0)
	c.lease.ends = rwNever
	if !c.Passable {
		c.lease.ends = s.clock.Load() + int64(rapid.IntRange(1, 20).Draw(m.r, "lasts"))
		c.lease.until.Store(c.lease.ends)
	}
	if st.Confirm {
		c.lease = st.Read
	}
}

// receive: the reply arrives.
func (m *rwModel) receive(s *rwSession, c *rwStep) {
	c.at = rwAsking
	ride := rwNever
	switch {
	case c.reply == rwGone:
		s.Lose("a", c.lease)
	case c.reply == rwRefused:
		if c.side == readSide {
			s.Refused(c.Waiter, !m.kind && m.chance(3))
		}
		if !c.wait {
			s.Quit(c.Waiter)
			s.end(c)
		}
	case c.side == writeSide:
		if c.lease.until.Load() <= s.clock.Load() {
			return // late: try again
		}
		s.granted(c, s.GrantWrite(c.Waiter, c.lease, 1))
	default:
		if c.reply == rwAlone {
			ride = 0
		}
		if !c.st.Confirm && c.lease.until.Load() <= s.clock.Load() {
			return
		}
		if c.st.Confirm && c.lease.until.Load() <= s.clock.Load() {
			s.Lose("a", c.lease) // as the caller does before it asks again
		}
		h, used := s.GrantRead(c.Waiter, c.lease, !c.st.Confirm, ride)
		if !c.st.Confirm && !used {
			s.ending = append(s.ending, c.lease)
		}
		if h != nil {
			s.granted(c, h)
		}
	}
}

// cancel: a call gives up, whatever it is doing.
func (m *rwModel) cancel(s *rwSession, c *rwStep) {
	if h := s.Quit(c.Waiter); h != nil {
		own := h
		h, out, _ := s.Return(c.Via, h)
		if out == arbiter.Release {
			s.ending = append(s.ending, h.Lease)
		}
		switch {
		case c.side != readSide || out != arbiter.Release && out != arbiter.Left:
		case h != own:
			m.unlockedReader(s, rwLock{c.Via, c.Owner, c.side}, h)
		case h.Owner == nil:
			m.unlockedAnonymous(s, h)
		}
	}
	if c.at == rwSent && !c.st.Confirm {
		m.execute(c) // all the same
	}
	if c.at == rwReplied && !c.st.Confirm {
		s.ending = append(s.ending, c.lease)
	}
	s.end(c)
}

func (m *rwModel) unlock(s *rwSession, i int) {
	l := s.locks[i]
	s.locks = slices.Delete(s.locks, i, i+1)
	h, out, _ := s.Exit(l.via, l.owner, l.side)
	switch out {
	case arbiter.NotHeld:
		m.r.Fatalf("nothing to unlock for %+v", l)
	case arbiter.Release:
		s.ending = append(s.ending, h.Lease)
	}
	if l.side == readSide && (out == arbiter.Release || out == arbiter.Left) {
		m.unlockedReader(s, l, h)
	}
}

// pass: time goes on, and a lease may get an end.
func (m *rwModel) pass() {
	for _, s := range m.sessions {
		s.clock.Add(1)
		if ls := s.Leases("a"); len(ls) > 0 && m.chance(6) {
			if l := rwPick(m, ls, "lease"); l.until.Load() == rwNever {
				l.until.Store(s.clock.Load() + 2)
			}
		}
	}
}

// watch: the watchdog finds the leases that have ended.
func (m *rwModel) watch(s *rwSession) {
	for _, l := range s.Leases("a") {
		if l.until.Load() <= s.clock.Load() {
			s.Lose("a", l)
			s.ending = append(s.ending, l)
		}
	}
}
