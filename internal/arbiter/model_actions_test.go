package arbiter_test

import (
	"slices"

	"github.com/relock-go/relock/internal/arbiter"
	"pgregory.net/rapid"
)

// redis is what Redis knows of the lock. It refuses at random what it may grant.
type redis struct {
	writer  *lease
	readers map[*lease]bool
	gone    map[*lease]bool // exclusive leases that were forced open without a word
	token   int64
}

type reply uint8

const (
	refused reply = iota
	granted
	alone // granted, and nobody may join
	gone
)

// act does one of the things that may happen now.
func (m *model) act() {
	var acts []func()
	for _, p := range m.processes {
		if len(p.calls)+len(p.holds) < 8 {
			acts = append(acts, p.enter, p.enter)
		}
		for _, c := range p.calls {
			if c.at != inQueue || len(c.C) > 0 {
				acts = append(acts, func() { p.advance(c) }, func() { p.advance(c) })
			}
		}
		if len(p.calls) > 0 {
			acts = append(acts, func() { p.cancel(pick(m, p.calls, "call")) })
		}
		acts = append(acts, func() { p.unlock(pick(m, p.sides(), "handle"), pick(m, p.owners, "owner")) }, p.reenter)
		for _, h := range p.holds {
			acts = append(acts, func() { p.unlockHold(h) })
		}
		for _, l := range p.ending {
			acts = append(acts, func() { p.release(l) })
		}
		if p.m.plain {
			acts = append(acts, p.recall, func() { p.handOff(pick(m, p.handles[write], "handle"), pick(m, p.owners, "owner")) })
		}
		if p.kept != nil {
			acts = append(acts, p.enter, p.enter, p.enter, p.enter)
		}
		if len(m.tickets) > 0 && len(p.calls)+len(p.holds) < 8 {
			acts = append(acts, p.adopt)
		}
		if slices.Contains(m.tickets, m.redis.writer) && len(p.calls)+len(p.holds) < 8 {
			acts = append(acts, p.adopt, p.adopt)
		}
	}
	acts = append(acts, m.pass, func() { pick(m, m.processes, "process").watch() })
	if m.chance(8) {
		acts = append(acts, m.force)
	}
	pick(m, acts, "act")()
}

// sides returns the handles of the sides that the lock has.
func (p *process) sides() []*handle {
	switch {
	case p.m.many:
		return p.handles[read]
	case !p.m.rw:
		return p.handles[write]
	}
	return slices.Concat(p.handles[write], p.handles[read], p.handles[read])
}

// side is the one whose holds a Lock may enter again at once.
func (k kind) side() arbiter.Side {
	if k.many {
		return read
	}
	return write
}

func (p *process) enter() {
	via, o := pick(p.m, p.sides(), "handle"), pick(p.m, p.owners, "owner")
	class := int64(rapid.IntRange(1, 2).Draw(p.m.r, "class"))
	c := &step{waiter: p.Waiter(via, p.ownerOf(via, o), !p.m.open && !p.fixed[via], class), wait: !p.m.chance(3)}
	c.Inside = via.Side() == read && c.wait && p.live(nil, read) != nil && p.m.chance(4)
	if p.m.plain && p.m.chance(2) {
		c.Keep = 1
	}
	p.notice(c)
	want, kept := p.verdict(c), p.kept
	got := p.Enter(c.waiter, c.wait)
	if got != want {
		p.m.r.Fatalf("Enter = %v, want %v", got, want)
	}
	p.calls = append(p.calls, c)
	if (got == arbiter.Queued || got == arbiter.Stale) && !c.wait && c.Passable {
		p.m.r.Fatal("who makes one attempt may get a place in Redis")
	}
	switch got {
	case arbiter.Ask:
		c.at = asking
	case arbiter.Queued:
	case arbiter.Stale:
		if c.Kept != kept {
			p.m.r.Fatal("another lease is to be released first")
		}
		if kept.next = 0; c.wait && c.Passable {
			kept.next = c.Class
		}
		p.drops(kept)
	default:
		if got == arbiter.Resumed {
			p.kept = nil
		}
		p.end(c)
		if (got <= arbiter.Joined || got == arbiter.Resumed) != (c.granted != nil) {
			p.m.r.Fatalf("a hold after %v", got)
		}
	}
}

// notice: a call that enters notices holds of its owner that have ended.
func (p *process) notice(c *step) {
	var ended []*lease // which this call must notice
	for _, h := range []*held{p.live(c.Owner, read), p.live(c.Owner, write)} {
		if h != nil && !p.certain(h.Lease()) {
			ended = append(ended, h.Lease())
		}
	}
	for _, h := range p.holds {
		h.lost = h.lost || slices.Contains(ended, h.Lease())
	}
}

// drops: the lease that was kept is to be released.
func (p *process) drops(l *lease) {
	p.kept, p.releasing, l.kept = nil, l, true
	p.ending = append(p.ending, l)
}

// recall: somebody else wants a lock that this process has, or drops the lease that it keeps.
func (p *process) recall() {
	h, kept := p.live(nil, write), p.kept
	switch {
	case kept != nil:
		does := p.Recall
		if p.m.chance(2) {
			does = p.Drop
		}
		if !does("a", kept) || does("a", kept) {
			p.m.r.Fatal("a kept lease is dropped once")
		}
		kept.next = 0
		p.drops(kept)
	case h != nil:
		if p.Recall("a", h.Lease()) || p.Drop("a", h.Lease()) {
			p.m.r.Fatal("a lease was dropped that was not kept")
		}
		h.recalled = true
		select {
		case <-h.Wanted():
		default:
			p.m.r.Fatal("a holder does not hear that the lock is wanted")
		}
	}
}

// handOff is an unlock after which the hold goes to a ticket.
func (p *process) handOff(via *handle, o *owner) {
	h := p.meant(via, o)
	if h != nil && h.count > 1 && !h.lost {
		if x := p.HandOff(via, o, errExpired); x.Outcome != arbiter.Kept || !is(x.Hold, h) {
			p.m.r.Fatalf("handed off though it is locked twice: %+v", x)
		}
		return
	}
	want, _ := p.outcome(h, false)
	x := p.HandOff(via, o, errExpired)
	p.unlocked(h, x, want, nil)
	if want != arbiter.Release {
		return
	}
	ticket := newLease(0, 0)
	ticket.until.Store(p.now.Load() + int64(rapid.IntRange(1, 20).Draw(p.m.r, "lasts")))
	p.handed[x.Lease] = ticket
}

// adopt is a call that asks Redis for what was handed off.
func (p *process) adopt() {
	via, o := pick(p.m, p.handles[write], "handle"), pick(p.m, p.owners, "owner")
	c := &step{waiter: p.Waiter(via, p.ownerOf(via, o), !p.fixed[via], 1), at: asking, apart: true}
	c.ticket = pick(p.m, p.m.tickets, "ticket")
	if p.m.chance(2) {
		c.Keep = 1
	}
	if w := p.m.redis.writer; slices.Contains(p.m.tickets, w) && !p.m.chance(3) {
		c.ticket = w
	}
	p.notice(c)
	if got := p.EnterBeside(c.waiter); got != p.eligible(c) {
		p.m.r.Fatalf("EnterBeside = %v", got)
	}
	p.calls = append(p.calls, c)
	if !p.eligible(c) {
		p.end(c)
	}
}

// reenter is the way of a Lock that enters again.
func (p *process) reenter() {
	via, o := pick(p.m, p.handles[p.m.side()], "handle"), pick(p.m, p.owners, "owner")
	if h := p.live(nil, via.Side()); h != nil && !p.ofHandle(h.Owner) && p.m.chance(2) {
		o = h.Owner
	}
	c := &step{waiter: p.Waiter(via, p.ownerOf(via, o), true, 0), wait: true}
	h := p.live(c.Owner, via.Side())
	want := p.reenters(c, h) && p.certain(h.Lease())
	if got := p.Reenter(via, c.Owner); got != want {
		p.m.r.Fatalf("Reenter = %v, want %v", got, want)
	}
	if want {
		p.got(c, h.hold)
	}
	p.Free(c.waiter)
}

func (p *process) advance(c *step) {
	switch c.at {
	case inQueue:
		p.look(c)
	case asking:
		p.send(c)
	case sent:
		p.m.execute(c)
	case replied:
		p.receive(c)
	}
}

// look: a queued call finds out what it was signalled for.
func (p *process) look(c *step) {
	switch {
	case !c.told():
	case c.granted != nil:
		p.end(c)
	default:
		c.at, c.seen = asking, false
	}
}

// told takes the signal of a call, if there is one.
func (c *step) told() bool {
	select {
	case <-c.C:
		return true
	default:
		return false
	}
}

// send: a call asks Redis.
func (p *process) send(c *step) {
	c.told()
	if c.granted != nil { // through another call of its owner
		p.letIn(c)
		return
	}
	c.at, c.lease = sent, newLease(0, rapid.IntRange(0, 2).Draw(p.m.r, "passes"))
	c.lease.keeps = p.m.plain && !p.m.chance(6)
	if c.Side() == p.m.side() {
		return
	}
	h, st := p.Standing(c.waiter)
	switch {
	case h != nil:
		p.end(c)
		return
	case st != p.standing(c):
		p.m.r.Fatalf("Standing = %+v", st)
	case st.Refused: // the caller starts over
		p.Quit(c.waiter)
		p.end(c)
		return
	}
	if c.st = st; st.Confirm {
		c.lease = st.Read
	} else if !c.Passable {
		c.lease.until.Store(p.now.Load() + int64(rapid.IntRange(1, 20).Draw(p.m.r, "lasts")))
	}
}

// standing says what Standing must return.
func (p *process) standing(c *step) (st standing) {
	st.Refused = !p.eligible(c)
	if p.shared != nil && c.Passable && p.live(nil, write) == nil {
		st.Confirm, st.Read = true, p.shared
	}
	if writer := p.live(c.Owner, write); writer != nil {
		st.Writes, st.Write = true, writer.Lease()
	}
	return st
}

// execute: Redis executes what a call has sent.
func (m *model) execute(c *step) {
	c.at, c.reply = replied, refused
	m.expire()
	own := c.st.Writes && m.redis.writer == c.st.Write && m.redis.writer != nil
	switch {
	case c.ticket != nil:
		if c.ticket == m.redis.writer {
			m.grant(c)
		}
	case m.many:
		if len(m.redis.readers) < 2 {
			m.redis.readers[c.lease], c.reply = true, granted
		}
	case c.st.Confirm && !m.redis.readers[c.lease]:
		c.reply = gone
	case !m.willing && m.chance(3) || m.redis.writer != nil && !(own && !c.st.Confirm):
	case c.Side() == write && len(m.redis.readers) == 0:
		m.grant(c)
	case c.Side() == read:
		m.redis.readers[c.lease], c.reply = true, granted
		if m.chance(2) {
			c.reply = alone
		}
	}
}

// grant: Redis grants the lock to a call.
func (m *model) grant(c *step) {
	m.redis.token += 1000
	m.redis.writer, c.lease.token, c.reply = c.lease, m.redis.token, granted
}

// letIn: a call has a hold through another one of its owner. One that adopts gives it back.
func (p *process) letIn(c *step) {
	if c.ticket != nil {
		p.cancel(c)
	} else {
		p.end(c)
	}
}

// receive: the reply arrives.
func (p *process) receive(c *step) {
	c.at = asking
	switch {
	case c.reply == gone:
		p.lose(c.lease)
	case c.reply == refused:
		c.refused = true
		p.Report(c.waiter, nil)
		if !c.wait {
			p.Quit(c.waiter)
			p.end(c)
		}
	case !p.certain(c.lease):
		if c.st.Confirm {
			p.lose(c.lease) // as the caller does before it asks again
		} else {
			p.ending = append(p.ending, c.lease)
		}
	case c.Side() == p.m.side():
		p.receiveOne(c)
	default:
		p.receiveRead(c)
	}
}

func (p *process) receiveOne(c *step) {
	older := p.live(nil, write)
	late := older != nil && older.Token > c.lease.token
	h, used := p.Grant(c.waiter, c.lease, c.lease.token)
	if used {
		p.admit(c, h)
		p.forget(p.releasing)
		p.end(c)
		return
	}
	p.ending = append(p.ending, c.lease)
	switch {
	case h != nil: // through another call of its owner
		p.letIn(c)
	case !p.eligible(c): // the caller starts over, or cannot adopt
		p.Quit(c.waiter)
		p.end(c)
	case !late:
		p.m.r.Fatal("a grant was not used")
	}
}

func (p *process) receiveRead(c *step) {
	joinUntil := never
	if c.reply == alone {
		joinUntil = 0
	}
	own, longest := p.live(c.Owner, read), c.lease.until.Load()
	if own != nil {
		longest = max(longest, own.Lease().until.Load())
	}
	entered := p.reenters(c, own)
	h, spare := p.GrantRead(c.waiter, c.lease, !c.st.Confirm, joinUntil)
	if spare != nil {
		p.ending = append(p.ending, spare)
	}
	if h == nil {
		return
	}
	p.admit(c, h)
	switch {
	case entered:
	case c.Passable:
		p.shared, p.joinUntil = h.Lease(), joinUntil
	case h.Lease().until.Load() != longest:
		p.m.r.Fatal("the lease of a reader was cut short")
	}
	p.end(c)
}

// cancel: a call gives up, whatever it is doing.
func (p *process) cancel(c *step) {
	p.note()
	h := p.Quit(c.waiter)
	if (h != nil) != (c.granted != nil) {
		p.m.r.Fatalf("Quit = %v", h)
	}
	if c.at == sent && !c.st.Confirm {
		p.m.execute(c) // all the same
	}
	if c.at == replied && !c.st.Confirm {
		p.ending = append(p.ending, c.lease)
	}
	via := c.Via
	p.end(c)
	if h != nil {
		want, next := p.outcome(c.granted, true)
		p.unlocked(c.granted, p.Return(via, h, errExpired), want, next)
	}
}
