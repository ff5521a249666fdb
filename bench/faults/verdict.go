package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A verdict is what went wrong in a run.
type verdict struct {
	overlap  time.Duration // the longest for which two could believe that they had the lock
	untold   bool          // the holder was told too late or not at all
	never    bool          // not at all
	late     time.Duration // how much later than the lock was gone; negative: before
	left     bool          // somebody had the lock in Redis for a lease and more, and did not renew
	sleeping int           // waiters that slept although the lock was free
	sent     int           // stale writes
	accepted int           // stale writes that the store accepted
	next     time.Duration // until somebody had the lock; 0: nobody had it
	problems []string
}

func (v verdict) String() string {
	return fmt.Sprintf("overlap %v, untold %t, never %t, late %v, left %t, sleeping %d, sent %d, "+
		"accepted %d, next %v, problems %q", v.overlap, v.untold, v.never, v.late, v.left,
		v.sleeping, v.sent, v.accepted, v.next, v.problems)
}

// A little more than it should take, since the machine is busy.
const (
	tellSlack = time.Second
	leftSlack = time.Second
)

// judge returns what went wrong in a run that has ended.
func (s *stage) judge() (v verdict, err error) {
	if s.watch.err != nil {
		return v, s.watch.err
	}
	v.overlap = longestOverlap(s.rec.spans(monotonic()))
	v.sleeping = s.sleeping
	v.left = s.watch.longest(s.struck) > s.lease+leftSlack
	since := cmp.Or(s.since, s.struck)
	if at := s.rec.first(since); at != 0 {
		v.next = time.Duration(at - since)
	}
	if s.mustKnow != 0 {
		h := s.call(s.procs[0])
		if v.never = h.told == 0; !v.never {
			v.late = time.Duration(h.told - s.mustKnow)
		}
		v.untold = v.never || v.late > tellSlack
	}
	v.sent, v.accepted = s.rec.store()
	s.rec.mu.Lock()
	defer s.rec.mu.Unlock()
	v.problems = slices.Clone(s.rec.problems)
	if s.abandoned {
		v.problems = append(v.problems, "waiters were given up while the lock was taken")
	}
	return v, nil
}

// longestOverlap returns for how long, at the most, two spans overlap.
func longestOverlap(all []span) (longest time.Duration) {
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var end int64 // of the span that ends last of those before
	for _, s := range all {
		longest = max(longest, time.Duration(min(end, s.to)-s.from))
		end = max(end, s.to)
	}
	return max(longest, 0)
}
