package memredis

import (
	"bytes"
	"slices"
	"sync"
	"time"
)

// A Direction is one way through the network.
type Direction uint8

const (
	Up   Direction = iota // to the server
	Down                  // to the process
)

// Cut holds back what is under way in these directions, both if none is given, until heal is
// called; then it arrives, in order. Connections stay open, and the end of one is held back too.
// While either direction is cut, no connection is made. Cuts add up. heal may be called again.
func (p *Process) Cut(directions ...Direction) (heal func()) {
	if len(directions) == 0 {
		directions = []Direction{Up, Down}
	}
	p.cut(directions, 1)
	return sync.OnceFunc(func() { p.cut(directions, -1) })
}

func (p *Process) cut(directions []Direction, change int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range directions {
		p.cuts[d] = max(p.cuts[d]+change, 0)
	}
	p.changedLocked()
}

// Delay makes messages arrive d later, in both directions. Those under way keep their delay, and
// none overtakes another. A connection is made within a round trip.
func (p *Process) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
	p.changedLocked()
}

// Break breaks every connection of the process. What is under way is lost, and both ends know
// at once.
func (p *Process) Break() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.broken = true
		l.up.signal()
		l.down.signal()
	}
}

// Refuse breaks every connection of the process, and lets it make no new one until allow is called,
// or Heal: it is told at once. allow may be called again.
func (p *Process) Refuse() (allow func()) {
	p.Break()
	p.refusing(1)
	return sync.OnceFunc(func() { p.refusing(-1) })
}

func (p *Process) refusing(change int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = max(p.refuse+change, 0)
}

// DropReplies lets the server execute the next n commands, and loses their replies. A connection
// breaks when it has lost the replies to all such commands that were sent on it; until then it
// delivers others. Not counted are a script that the server does not know, and what a client
// sends to set up and watch a connection or to subscribe.
func (p *Process) DropReplies(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drops += n
	p.changedLocked()
}

// Drops returns how many replies are still to be lost.
func (p *Process) Drops() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.drops
}

// LoseMessage loses the next published message that contains text, and nothing else: in a cluster a
// node may fail to pass one on.
func (p *Process) LoseMessage(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unheard = text
}

// deliveredLocked notes that the server gets a command now.
func (l *link) deliveredLocked(command []byte) {
	switch kindOf(command) {
	case upkeep:
		l.awaited = append(l.awaited, awaited{})
	case ordinary:
		lose := l.p.drops > 0
		l.awaited = append(l.awaited, awaited{lose, scriptOf(command)})
		if lose {
			l.losing++
			if l.p.drops--; l.p.drops == 0 {
				for other := range l.p.links {
					other.breakIfDoneLocked()
				}
			}
		}
	}
}

// answeredLocked notes a message from the server. It returns what to deliver, nil for nothing.
func (l *link) answeredLocked(message []byte) []byte {
	if message[0] == '>' {
		lose := l.p.unheard != "" && bytes.Contains(message, []byte(l.p.unheard))
		if lose {
			l.p.unheard = ""
		}
		if lose {
			return nil
		}
		return message
	}
	if len(l.awaited) == 0 {
		return message
	}
	to := l.awaited[0]
	l.awaited = l.awaited[1:]
	if to.lose {
		l.losing--
		if bytes.HasPrefix(message, []byte("-NOSCRIPT")) {
			l.p.drops++ // it was not executed: another one's turn
			l.up.signal()
		} else {
			l.lost = true
		}
	}
	l.breakIfDoneLocked()
	switch {
	case l.lost: // what follows a lost reply would be taken for it
		return nil
	case to.script != nil:
		return asRedis(message, to.script)
	}
	return message
}

// breakIfDoneLocked breaks the connection if it has lost a reply and no more are to be lost on it.
func (l *link) breakIfDoneLocked() {
	if !l.lost || l.losing > 0 {
		return
	}
	if l.p.drops > 0 && slices.ContainsFunc(l.up.queue, func(p piece) bool {
		return p.data != nil && kindOf(p.data) == ordinary
	}) {
		return
	}
	l.resetLocked()
}

// resetLocked breaks the connection from the server's end: what is under way to the server is
// lost, what is under way to the client still arrives.
func (l *link) resetLocked() {
	l.server.closeLocked()
}

// Heal ends every fault, and delivers what is under way.
func (p *Process) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cuts, p.delay, p.drops, p.refuse, p.unheard = [2]int{}, 0, 0, 0, ""
	for l := range p.links {
		l.up.hurry()
		l.down.hurry()
	}
	p.changedLocked()
}

// changedLocked makes everybody look again who waits for the network.
func (p *Process) changedLocked() {
	close(p.changed)
	p.changed = make(chan struct{})
	for l := range p.links {
		l.up.signal()
		l.down.signal()
	}
}
