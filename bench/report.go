package main

import (
	"fmt"
	"slices"
)

// direction says what of a figure is good.
type direction int

const (
	neither direction = iota
	less
	more
)

// figure is what a row shows of every peer.
type figure struct {
	section string
	name    string
	unit    unit
	good    direction
	of      func([]float64) float64 // the rounds

	goal     float64 // so many times as good as the best other; 0: none
	limit    float64 // goal: at most so much; 0: none
	renewing bool    // the goal is against peers that renew by themselves

	chart string // its name in the chart; empty if it is not there
}

// row is a figure with its samples by peer.
type row struct {
	figure
	samples map[string][]float64
}

// faults are what went wrong with one peer in one section.
type faults struct {
	violations, stuck, errors int64
	notes                     []string // each once
}

// report collects the figures of a run.
type report struct {
	machine  []string
	peers    []*peer
	sections []string
	rows     map[string][]*row             // by section
	faults   map[string]map[string]*faults // by section and peer
	remarks  map[string]string             // by section
	grids    map[string][][]string         // by section: one more table, with its head
	herds    lineChart
	sweep    lineChart // of locality
}

func newReport(peers []*peer) *report {
	return &report{
		peers: peers, rows: make(map[string][]*row),
		faults: make(map[string]map[string]*faults), remarks: make(map[string]string),
		grids: make(map[string][][]string),
	}
}

func (r *report) open(section string) {
	if !slices.Contains(r.sections, section) {
		r.sections = append(r.sections, section)
		r.faults[section] = make(map[string]*faults)
	}
}

// remark says something under the heading of a section.
func (r *report) remark(section, text string) {
	r.open(section)
	r.remarks[section] = text
}

// row returns the row of a figure, which it makes if there is none.
func (r *report) row(f figure) *row {
	r.open(f.section)
	for _, old := range r.rows[f.section] {
		if old.name == f.name {
			return old
		}
	}
	if f.of == nil {
		f.of = median
	}
	n := &row{f, make(map[string][]float64)}
	r.rows[f.section] = append(r.rows[f.section], n)
	return n
}

func (r *row) add(p *peer, v float64) { r.samples[p.id] = append(r.samples[p.id], v) }

// value returns the figure of a peer, if there is one.
func (r *row) value(id string) (float64, bool) {
	s := r.samples[id]
	if len(s) == 0 {
		return 0, false
	}
	return r.of(s), true
}

// against returns how many times as good relock is as the best of the others, or of
// those that renew by themselves.
func (r *row) against(peers []*peer, renewing bool) (times float64, ok bool) {
	us, ok := r.value(ours)
	if !ok || us <= 0 || r.good == neither {
		return 0, false
	}
	for _, p := range peers {
		v, ok := r.value(p.id)
		switch {
		case p.own || !ok || renewing && !p.renews || r.good == more && v <= 0:
			continue
		case v <= 0:
			return 0, false // no number of times says how much better that is
		}
		t := v / us
		if r.good == more {
			t = us / v
		}
		if times == 0 || t < times {
			times = t
		}
	}
	return times, times > 0
}

// met reports whether a row's goal is met; ok is false if there is nothing to judge.
func (r *row) met(peers []*peer) (met, ok bool) {
	if v, ok := r.value(ours); r.limit > 0 {
		return v <= r.limit, ok
	}
	times, ok := r.against(peers, r.renewing)
	return times >= r.goal, ok && r.goal > 0
}

// best returns the peer with the best figure, nil if there is no such thing.
func (r *row) best(peers []*peer) (best *peer) {
	if r.good == neither {
		return nil
	}
	var at float64
	for _, p := range peers {
		v, ok := r.value(p.id)
		if ok && (best == nil || r.good == less && v < at || r.good == more && v > at) {
			best, at = p, v
		}
	}
	return best
}

// fault returns the faults of a peer in a section.
func (r *report) fault(section string, p *peer) *faults {
	r.open(section)
	f := r.faults[section][p.id]
	if f == nil {
		f = new(faults)
		r.faults[section][p.id] = f
	}
	return f
}

// outcome records what a task's outcome says of faults.
func (r *report) outcome(section string, p *peer, o *outcome) {
	f := r.fault(section, p)
	f.violations += o.Violations
	f.stuck += o.Stuck
	f.errors += o.Errors
	if o.FirstError != "" {
		f.note(o.FirstError)
	}
	if o.Hung > 0 {
		f.note(fmt.Sprintf("%d goroutines ignored the end of their contexts: worker replaced", o.Hung))
	}
}

// failed records that a worker could not do a task.
func (r *report) failed(section string, p *peer, err error) {
	f := r.fault(section, p)
	f.errors++
	f.note(err.Error())
}

const notesMost = 3 // for each peer and section

func (f *faults) note(text string) {
	if !slices.Contains(f.notes, text) && len(f.notes) < notesMost {
		f.notes = append(f.notes, text)
	}
}
