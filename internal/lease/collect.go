package lease

import (
	"container/heap"

	"github.com/relock-go/relock/internal/timing"
)

// Which leases are renewed together. One script renews up to wire.BatchKeys leases of a
// slot that are renewed alike.

// collectLocked moves to w.due the leases whose renewal is due, and those due within a quarter of
// the interval: leases that share a script stay together from then on.
func (w *Watchdog) collectLocked(now int64) {
	for _, l := range w.pickLocked(now) {
		l.renewing = true
		l.at = l.Deadline.Load() - Early
		heap.Push(&w.heap, l)
		w.due = append(w.due, l)
	}
	if len(w.due) > 0 {
		timing.Signal(w.work)
	}
}

// pickLocked removes the leases from the heap that may be renewed and are due within a twelfth of
// their term, but no more than of the engine's, in order.
func (w *Watchdog) pickLocked(now int64) (picked []*Lease) {
	var keep []*Lease // they keep their times
	for len(w.heap) > 0 && w.heap[0].at <= now+int64(w.Lease/12) {
		l := w.heap[0]
		deadline := l.Deadline.Load() - Early
		if l.at > now+int64(l.soon()) || l.stopped && l.at < deadline {
			keep = append(keep, heap.Pop(&w.heap).(*Lease))
			continue
		}
		if l.Fixed && l.claim.Load() == 0 || l.renewing || l.at >= deadline || l.lengthAt(now) == 0 {
			if l.at == deadline {
				break
			}
			l.at = deadline
			heap.Fix(&w.heap, 0)
			continue
		}
		picked = append(picked, heap.Pop(&w.heap).(*Lease))
	}
	for _, l := range keep {
		heap.Push(&w.heap, l)
	}
	return picked
}
