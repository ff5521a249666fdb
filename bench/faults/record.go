package main

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// A record is what the workers of a run say, as the main process hears it.
type record struct {
	mu       sync.Mutex    // protects following
	ready    map[int]bool  // false: it cannot work
	killed   map[int]int64 // when, by process
	calls    map[caller]*call
	writes   []write
	problems []string
}

// A caller is a goroutine of a process.
type caller struct{ proc, g int }

// A call is what came of it. Times are by monotonic; 0: not yet.
type call struct {
	called, entered, told, left, unlocked, failed int64

	written int64 // when it last wrote
}

// A write is one to the store.
type write struct {
	by    *call
	at    int64
	token int64
}

func newRecord() *record {
	return &record{
		ready: make(map[int]bool), killed: make(map[int]int64), calls: make(map[caller]*call),
	}
}

func (r *record) hear(proc int, e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	who := caller{proc, e.G}
	c := r.calls[who]
	if c == nil {
		c = &call{}
		if e.What != ready && e.What != broken {
			r.calls[who] = c
		}
	}
	switch e.What {
	case ready, broken:
		r.ready[proc] = e.What == ready
	case calls:
		c.called = e.At
	case enters:
		c.entered = e.At
	case told:
		c.told = e.At
	case leaves:
		c.left = e.At
	case writes:
		c.written = e.At
		r.writes = append(r.writes, write{c, e.At, e.Token})
	case unlocks:
		c.unlocked = e.At
	case fails:
		c.failed = e.At
	}
	if e.Text != "" && c.told == 0 { // an unlock after a loss has an error by right
		r.problems = append(r.problems, e.What+": "+e.Text)
	}
}

// store has the writes reach a store in the order of their times; the main process hears of those of
// different workers in any order. A write is stale if a later section has written before. The store
// refuses a token smaller than the largest that it has seen, and cannot refuse a write without one.
func (r *record) store() (stale, accepted int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortStableFunc(r.writes, func(a, b write) int { return cmp.Compare(a.at, b.at) })
	var newest, largest int64 // section that has written, by its begin, and token
	for _, w := range r.writes {
		if w.by.entered < newest {
			stale++
			if w.token >= largest {
				accepted++
			}
		}
		newest, largest = max(newest, w.by.entered), max(largest, w.token)
	}
	return stale, accepted
}

func (r *record) kill(proc int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.killed[proc] = monotonic()
}

// waiting returns how many live callers wait for the lock.
func (r *record) waiting() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for who, c := range r.calls {
		if r.killed[who.proc] == 0 && c.entered == 0 && c.failed == 0 {
			n++
		}
	}
	return n
}

// count returns how many callers a condition is true of.
func (r *record) count(is func(who caller, c *call) bool) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for who, c := range r.calls {
		if is(who, c) {
			n++
		}
	}
	return n
}

// first returns the time of the first section that began after a time, or 0.
func (r *record) first(after int64) (at int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.calls {
		if c.entered > after && (at == 0 || c.entered < at) {
			at = c.entered
		}
	}
	return at
}

// A span is the time for which a holder could believe that it had the lock.
type span struct {
	who      caller
	from, to int64
}

// grace is the time that a goroutine may take to say that it was told of a loss.
const grace = 100 * time.Millisecond

// spans returns the sections until a time. A section ends with its holder's unlock or death, or
// when the holder is told that it has lost the lock.
func (r *record) spans(until int64) (all []span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for who, c := range r.calls {
		if c.entered == 0 {
			continue
		}
		end := until
		if at := r.killed[who.proc]; at != 0 {
			end = at
		}
		if c.left != 0 {
			end = min(end, c.left)
		}
		if c.told != 0 {
			end = min(end, c.told-int64(grace))
		}
		all = append(all, span{who, c.entered, end})
	}
	return all
}
