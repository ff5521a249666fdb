package transport

import (
	"sync"

	"github.com/relock-go/relock/internal/timing"
)

// Rounds runs batches of work for many locks of a session, such as their renewals. Outside a
// cluster there is one round at a time, which Next itself runs. In a cluster each node has its
// own rounds, one at a time, each on a goroutine, so that a node that hangs delays only its
// own work.
//
// An item that is due while its node has a round under way waits for the end of that. Each
// call of Next looks its node up again, since a slot may have moved or another node taken
// over.
type Rounds[T any] struct {
	Conn *Conn
	Key  func(T) string // the key whose slot decides the node
	Do   func([]T)      // runs one round; owns the slice
	Kick chan struct{}  // gets a signal when Next must be called although nothing is due

	waiting []T            // items for the end of a round; only the goroutine that calls Next uses it
	wg      sync.WaitGroup // counts rounds under way on goroutines
	busy    sync.Map       // has the addresses of nodes with a round under way
}

// Next starts rounds for the items that are due and those that have waited, on the nodes that
// have no round under way. Only one goroutine may call Next and Wait.
func (r *Rounds[T]) Next(due []T) {
	if r.Conn.Slots == nil {
		if len(due) > 0 {
			r.Do(due)
		}
		return
	}
	r.waiting = append(r.waiting, due...)
	if len(r.waiting) == 0 {
		return
	}
	nodes := byNode(r.Conn, r.waiting, r.Key)
	r.waiting = nil
	for addr, items := range nodes {
		if _, busy := r.busy.LoadOrStore(addr, nil); busy {
			r.waiting = append(r.waiting, items...)
			continue
		}
		r.wg.Go(func() { // ends with Do; Wait waits for it
			r.Do(items)
			r.busy.Delete(addr)
			timing.Signal(r.Kick)
		})
	}
}

// Wait blocks until no round is under way, and returns the items that have not had one.
func (r *Rounds[T]) Wait() []T {
	r.wg.Wait()
	left := r.waiting
	r.waiting = nil
	return left
}

// byNode groups items by the address of their node, "" if that is unknown or there is only one.
func byNode[T any](c *Conn, items []T, key func(T) string) map[string][]T {
	if c.Slots == nil {
		return map[string][]T{"": items}
	}
	nodes := make(map[string][]T)
	for _, x := range items {
		addr := c.Slots.Primary(Slot(key(x)))
		nodes[addr] = append(nodes[addr], x)
	}
	return nodes
}
