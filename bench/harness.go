package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

// lease is that of every lock, except where renewals are measured.
const lease = 30 * time.Second

// bench is one run. Everything in it happens on one goroutine.
type bench struct {
	set    settings
	sizes  sizes
	srv    *server
	shared *shared
	report *report
	say    io.Writer // progress
	ctx    context.Context

	// As it is now, direct or by way of the proxy.
	addr string
	far  bool
	id   string // of this run, and with seq
	seq  int    // makes names distinct
}

// scenario is a part of a run.
type scenario struct {
	name string // of the -scenario flag
	run  func(*bench) error
}

var scenarios = []scenario{
	{"uncontended", (*bench).uncontended},
	{"names", (*bench).names},
	{"one-name", (*bench).oneName},
	{"processes", (*bench).processes},
	{"wake-up", (*bench).wakeUp},
	{"readers", (*bench).readers},
	{"herd", (*bench).herd},
	{"locality", (*bench).locality},
	{"held", (*bench).held},
	{"churn", (*bench).churning},
}

// section names a section of the report.
func (b *bench) section(title string) string {
	if b.far {
		title += fmt.Sprintf(", %v added to every round trip", b.set.delay)
	}
	return title
}

// goal returns what is aimed at, which is said of the server nearby only.
func (b *bench) goal(times float64) float64 {
	if b.far {
		return 0
	}
	return times
}

// fresh returns a name that was not used before.
func (b *bench) fresh(what string) string {
	b.seq++
	return fmt.Sprintf("%s-%s-%d", what, b.id, b.seq)
}

// peers returns those of the run that waiting says: all, or without those that differ
// only in how they wait.
func (b *bench) peers(waiting bool) (some []*peer) {
	for _, p := range b.report.peers {
		if waiting || !p.again {
			some = append(some, p)
		}
	}
	return some
}

// fastest returns the peers of the run without those that have the default options of a
// library that has others.
func (b *bench) fastest() (some []*peer) {
	for _, p := range b.report.peers {
		if !p.defaults {
			some = append(some, p)
		}
	}
	return some
}

// inTurns calls f for every peer in each of the rounds, each time in another order. It
// stops at an error, which is one of the server or of this program, not of a peer.
func (b *bench) inTurns(rounds int, peers []*peer, f func(p *peer, round int) error) error {
	for round := range rounds {
		for i := range peers {
			if err := b.ctx.Err(); err != nil {
				return err
			}
			if err := f(peers[(i+round)%len(peers)], round); err != nil {
				return err
			}
		}
	}
	return nil
}

// crew is the workers of a scenario.
type crew struct {
	b       *bench
	section string
	lease   time.Duration
	threads int // of each worker, see job
	hands   map[string][]*hand
}

func (b *bench) crew(section string, lease time.Duration) *crew {
	return &crew{b: b, section: section, lease: lease, hands: make(map[string][]*hand)}
}

// end ends all workers.
func (c *crew) end() {
	for _, hands := range c.hands {
		for _, h := range hands {
			_ = h.in.Close() // so that they all end at the same time
		}
		for _, h := range hands {
			h.end()
		}
	}
	clear(c.hands)
}

// of returns n workers of a peer, of which it starts those that are not there or are of
// no use any more. If it cannot, that is the peer's fault, and it returns nil.
func (c *crew) of(p *peer, n int) []*hand {
	hands := c.hands[p.id]
	var started []*hand
	for i := range n {
		if i < len(hands) && hands[i].dead == nil {
			continue
		}
		h, err := startHand(job{Peer: p.id, Addr: c.b.addr, Lease: c.lease, Shared: c.b.shared.file, Threads: c.threads})
		if err != nil {
			c.b.report.failed(c.section, p, err)
			return nil
		}
		if i < len(hands) {
			hands[i].end()
			hands[i] = h
		} else {
			hands = append(hands, h)
		}
		started = append(started, h)
		c.hands[p.id] = hands
	}
	ok := true
	for _, h := range started {
		if _, err := h.answer(startWithin); err != nil {
			c.b.report.failed(c.section, p, err)
			h.dead = err
			ok = false
		}
	}
	if !ok {
		return nil
	}
	return hands[:n]
}

// do has one worker of a peer do a task, and records its faults. It reports false if
// there is no outcome.
func (c *crew) do(p *peer, h *hand, t *task) (outcome, bool) {
	out, err := h.do(t)
	if err != nil {
		c.b.report.failed(c.section, p, err)
		return out, false
	}
	c.b.report.outcome(c.section, p, &out)
	return out, true
}

// all has several workers do a task each at the same time.
func (c *crew) all(p *peer, hands []*hand, tasks []*task) (outs []outcome, ok bool) {
	c.begin(p, hands, tasks)
	return c.answers(p, hands, tasks)
}

// begin has several workers begin a task each.
func (c *crew) begin(p *peer, hands []*hand, tasks []*task) {
	for i, h := range hands {
		if err := h.begin(tasks[i]); err != nil {
			c.b.report.failed(c.section, p, err)
			h.dead = err
		}
	}
}

// answers returns what came of the tasks that several workers have begun. It reports
// false if an outcome is missing.
func (c *crew) answers(p *peer, hands []*hand, tasks []*task) (outs []outcome, ok bool) {
	ok = true
	for i, h := range hands {
		if h.dead != nil {
			ok = false
			continue
		}
		out, err := h.answer(patience(tasks[i]))
		if err != nil {
			c.b.report.failed(c.section, p, err)
			ok = false
			continue
		}
		c.b.report.outcome(c.section, p, &out)
		outs = append(outs, out)
	}
	return outs, ok
}

// startSoon is when workers begin together that are told one after the other.
func startSoon() int64 { return monotonic() + int64(10*time.Millisecond) }
