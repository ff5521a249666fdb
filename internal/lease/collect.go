package lease

import (
	"container/heap"
	"time"

	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/wire"
)

// Which leases are renewed together. One script renews up to wire.BatchKeys leases that have a
// wire.Renewal in common.

// fillMost bounds the leases examined to fill batches.
const fillMost = 4096

// batch counts the leases that have a wire.Renewal in common.
type batch struct {
	eligible int // may be renewed now
	due      int // of those, must be renewed now
	spare    int // places left in the last script
	take     int // will be renewed
}

// collectLocked moves the leases whose renewal is due to w.due. It adds those due within a
// quarter of the interval as far as they fill scripts. Where many leases share scripts, one that
// must go before it is full is filled with leases due within half the interval; they stay
// together from then on.
func (w *Watchdog) collectLocked(now int64) {
	picked := w.pickLocked(now, w.Lease/12, len(w.heap))
	batches := make(map[wire.Renewal]*batch)
	for _, l := range picked {
		b := batches[w.Proto.Renewal(&l.Ref)]
		if b == nil {
			b = new(batch)
			batches[w.Proto.Renewal(&l.Ref)] = b
		}
		b.eligible++
		if l.at <= now {
			b.due++
		}
	}
	if len(picked) < len(batches)*wire.BatchKeys/4 {
		// Scripts stay small anyway: renewing more at once saves round trips.
		for _, b := range batches {
			b.take = b.eligible
		}
	} else {
		picked = w.fillLocked(now, picked, batches)
	}
	for _, l := range picked {
		if b := batches[w.Proto.Renewal(&l.Ref)]; b != nil && b.take > 0 {
			b.take--
			l.renewing = true
			l.at = l.Deadline.Load() - Early
			w.due = append(w.due, l)
		}
		heap.Push(&w.heap, l)
	}
	if len(w.due) > 0 {
		timing.Signal(w.work)
	}
}

// fillLocked decides how many leases of each batch to take, and picks more to fill scripts. Each
// batch takes the earliest of its own.
func (w *Watchdog) fillLocked(now int64, picked []*Lease, batches map[wire.Renewal]*batch) []*Lease {
	partial := false
	for _, b := range batches {
		if whole := b.eligible / wire.BatchKeys * wire.BatchKeys; whole < b.due {
			b.spare = wire.BatchKeys - b.eligible%wire.BatchKeys
			b.take = b.eligible
			partial = true
		} else {
			b.take = whole
		}
	}
	if !partial {
		return picked
	}
	for _, l := range w.pickLocked(now, w.Lease/6, fillMost) {
		if b := batches[w.Proto.Renewal(&l.Ref)]; b != nil && b.spare > 0 {
			b.spare--
			b.take++
		}
		picked = append(picked, l)
	}
	return picked
}

// pickLocked removes up to most leases from the heap that may be renewed and are due within d,
// in order.
func (w *Watchdog) pickLocked(now int64, d time.Duration, most int) (picked []*Lease) {
	for len(w.heap) > 0 && len(picked) < most && w.heap[0].at <= now+int64(d) {
		l := w.heap[0]
		deadline := l.Deadline.Load() - Early
		if l.Fixed && !l.Claim || l.stopped || l.renewing || l.at >= deadline || l.maxEnd > 0 && now > l.maxEnd {
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
