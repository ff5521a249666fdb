package main

import "time"

// A task is what a worker is told to do; it answers with an outcome. Both go over its
// standard input and output as one line of JSON each.
type task struct {
	Do   string // a key of actions
	Name string // of the lock, or what its names begin with

	Goroutines int
	Distinct   bool          // each goroutine has a name of its own
	From, To   int           // the numbers of the names
	Pairs      int           // of Lock and Unlock
	Start      int64         // by monotonic; 0: at once
	WarmUp     time.Duration // of a herd, from Start on
	Span       time.Duration // from Start on, or after the warm-up
	Section    time.Duration // how long a herd keeps the lock
	Limit      time.Duration // for all of it
	Stuck      time.Duration // when nobody has got the lock for so long, waiters are stuck
	Cancel     bool          // contexts can be cancelled
	Side       string        // of a lock of readers and writers: "read" or "write"
	Cell       int           // of the shared memory
	Percent    int           // of the reads of others, that a writer writes; of the calls, for names of one's own
	Own        string        // what the names begin with that no other worker uses
	Keep       bool          // the library may keep locks that nobody uses
	Foreign    string        // what the names of another worker's own begin with
	Visits     int           // one of so many calls for own names is for those of the other; 0: none
}

// outcome is what came of a task.
type outcome struct {
	Counted  int64         // acquisitions within the span
	Acquired int64         // all of them
	Longest  time.Duration // wait for one
	Took     []int64       // time of each pair, ns
	At       int64         // by monotonic

	Violations int64 // seen by whoever got in
	Stuck      int64 // waiters that the watchdog ended
	Hung       int64 // goroutines that even that did not end
	Errors     int64
	FirstError string

	Used usage // by the worker, meanwhile
	Has  state // the worker, afterwards; only if asked for

	Fatal string // the task could not be done
}

// usage is what a process has used up.
type usage struct {
	CPU        time.Duration
	Allocs     int64
	AllocBytes int64
}

func (u usage) since(before usage) usage {
	return usage{u.CPU - before.CPU, u.Allocs - before.Allocs, u.AllocBytes - before.AllocBytes}
}

// state is what a process has.
type state struct {
	Memory     int64 // heap in use after a collection, and stacks
	Goroutines int
}

// failed records an error of a library.
func (o *outcome) failed(err error) {
	if o.Errors++; o.FirstError == "" {
		o.FirstError = err.Error()
	}
}

// add takes the counts of another outcome in.
func (o *outcome) add(other *outcome) {
	o.Counted += other.Counted
	o.Acquired += other.Acquired
	o.Longest = max(o.Longest, other.Longest)
	o.Violations += other.Violations
	o.Stuck += other.Stuck
	o.Hung += other.Hung
	o.Errors += other.Errors
	if o.FirstError == "" {
		o.FirstError = other.FirstError
	}
}
