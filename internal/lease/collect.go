package lease

import (
	"container/heap"
	"time"

	"github.com/relock-go/relock/internal/timing"
)

// Which leases are renewed together. One script renews up to wire.BatchKeys leases that have a
// wire.Renewal in common.

// collectLocked moves to w.due the leases whose renewal is due, and those due within a quarter of
// the interval: leases that share a script stay together from then on.
func (w *Watchdog) collectLocked(now int64) {
	for _, l := range w.pickLocked(now, w.Lease/12) {
		l.renewing = true
		l.at = l.Deadline.Load() - Early
		heap.Push(&w.heap, l)
		w.due = append(w.due, l)
	}
	if len(w.due) > 0 {
		timing.Signal(w.work)
	}
}

// pickLocked removes the leases from the heap that may be renewed and are due within d, in order.
func (w *Watchdog) pickLocked(now int64, d time.Duration) (picked []*Lease) {
	var releasing []*Lease // they keep their times
	defer func() {
		for _, l := range releasing {
			heap.Push(&w.heap, l)
		}
	}()
	for len(w.heap) > 0 && w.heap[0].at <= now+int64(d) {
		l := w.heap[0]
		deadline := l.Deadline.Load() - Early
		if l.stopped && l.at < deadline {
			releasing = append(releasing, heap.Pop(&w.heap).(*Lease))
			continue
		}
		if l.Fixed && !l.Claim || l.renewing || l.at >= deadline || l.maxEnd > 0 && now > l.maxEnd {
			if l.at == deadline {
				break
			}
			l.at = deadline
			heap.Fix(&w.heap, 0)
			continue
		}
		picked = append(picked, heap.Pop(&w.heap).(*Lease))
	}
	return picked
}
