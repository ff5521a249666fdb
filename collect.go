package relock

import (
	"container/heap"
	"time"
)

// Which renewals go together.

// fillMost bounds how many leases are looked through to fill batches.
const fillMost = 4096

// load is what there is to renew that may share a batch.
type load struct {
	n    int // leases that could go
	must int // of those, how many are due
	room int // how many more the last batch could take
	take int // how many go
}

// collectLocked moves to due the leases whose renewal is due, and takes along those due
// within a quarter of the interval as far as they fill batches. Where many leases may
// share a batch, one that has to go without being full is filled with those due within
// half the interval, with which it goes together from then on.
func (w *watchdog) collectLocked(now int64) {
	picked := w.pickLocked(now, w.s.cfg.lease/12, len(w.heap))
	loads := make(map[renewal]*load)
	for _, l := range picked {
		g := loads[w.s.proto.renewal(l)]
		if g == nil {
			g = new(load)
			loads[w.s.proto.renewal(l)] = g
		}
		g.n++
		if l.at <= now {
			g.must++
		}
	}
	if len(picked) < len(loads)*batchKeys/4 {
		// Batches would be small in any case: what goes together saves round trips.
		for _, g := range loads {
			g.take = g.n
		}
	} else {
		picked = w.fillLocked(now, picked, loads)
	}
	for _, l := range picked {
		if g := loads[w.s.proto.renewal(l)]; g != nil && g.take > 0 {
			g.take--
			l.renewing = true
			l.at = l.deadline.Load() - early
			w.due = append(w.due, l)
		}
		heap.Push(&w.heap, l)
	}
	if len(w.due) > 0 {
		wake(w.work)
	}
}

// fillLocked decides how many leases of each load go, and adds those that fill batches to
// the ones that were picked. Each load takes the first of its own.
func (w *watchdog) fillLocked(now int64, picked []*lease, loads map[renewal]*load) []*lease {
	lacking := false
	for _, g := range loads {
		if whole := g.n / batchKeys * batchKeys; whole < g.must {
			g.room = batchKeys - g.n%batchKeys
			g.take = g.n
			lacking = true
		} else {
			g.take = whole
		}
	}
	if !lacking {
		return picked
	}
	for _, l := range w.pickLocked(now, w.s.cfg.lease/6, fillMost) {
		if g := loads[w.s.proto.renewal(l)]; g != nil && g.room > 0 {
			g.room--
			g.take++
		}
		picked = append(picked, l)
	}
	return picked
}

// pickLocked takes those that may be renewed and are due within d out of the heap, at
// most so many, in order.
func (w *watchdog) pickLocked(now int64, d time.Duration, most int) (picked []*lease) {
	for len(w.heap) > 0 && len(picked) < most && w.heap[0].at <= now+int64(d) {
		l := w.heap[0]
		deadline := l.deadline.Load() - early
		if l.fixed && !l.claim || l.stopped || l.renewing || l.at >= deadline || l.maxEnd > 0 && now > l.maxEnd {
			if l.at == deadline {
				break
			}
			l.at = deadline
			heap.Fix(&w.heap, 0)
			continue
		}
		picked = append(picked, heap.Pop(&w.heap).(*lease))
	}
	return picked
}
