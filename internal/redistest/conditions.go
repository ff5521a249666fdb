package redistest

import (
	"slices"
	"time"
)

// What the goroutines of a link ask their proxy.

// latency returns the delay in force.
func (p *Proxy) latency() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.delay
}

// orders returns the orders of DropReplies that have not landed.
func (p *Proxy) orders() []*drop {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.drops
}

// swallow reports whether n bytes that were just read are to vanish.
func (p *Proxy) swallow(l *link, n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.swallowLocked(l, n)
}

// swallowLocked marks the link as broken under the same lock under which a
// blackhole is lifted, so that no link with a hole in its stream survives.
func (p *Proxy) swallowLocked(l *link, n int) bool {
	if !p.blackhole && !l.forgotten {
		return false
	}
	l.lost = true
	p.dropped.Add(int64(n))
	return true
}

// gate holds a piece that is due for as long as the conditions demand. It
// reports whether to deliver the piece, and false for ok when the link was closed.
func (p *Proxy) gate(l *link, b piece) (pass, ok bool) {
	for {
		p.mu.Lock()
		swallowed := p.swallowLocked(l, len(b.data))
		stalled, changed := p.stalled || l.held, p.changed
		p.mu.Unlock()
		switch {
		case swallowed && !b.end:
			return false, true
		case !swallowed && !stalled:
			return true, true
		}
		select {
		case <-changed:
		case <-l.closed:
			return false, false
		}
	}
}

// broadcastLocked wakes the links that wait for a change of conditions.
func (p *Proxy) broadcastLocked() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// closeLinksLocked closes the links that are chosen, and returns them. They still
// have to be waited for, without the lock.
func (p *Proxy) closeLinksLocked(chosen func(*link) bool) []*link {
	var links []*link
	for l := range p.links {
		if chosen(l) {
			l.close()
			links = append(links, l)
		}
	}
	return links
}

// wait returns when nothing of the links runs any more.
func wait(links []*link) {
	for _, l := range links {
		<-l.done
	}
}

// forget takes a link that has ended off the books.
func (p *Proxy) forget(l *link) {
	d := l.ledger.close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
	if d != nil {
		p.drops = slices.DeleteFunc(slices.Clone(p.drops), func(other *drop) bool { return other == d })
		close(d.landed)
	}
}
