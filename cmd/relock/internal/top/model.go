package top

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gdamore/tcell/v2"
	"github.com/relock-go/relock/cmd/relock/internal/locks"
)

// mode is what keys mean.
type mode int

const (
	browsing  mode = iota
	filtering      // they are the filter
	asking         // they answer whether to force
	detail         // of the selected lock
	helping
)

// model is the state of the screen. It is used by one goroutine; commands do not touch it.
type model struct {
	Options
	reader *locks.Reader

	rows    map[string]*row
	turns   []string // the names of rows, in the order in which they are read
	shown   []*row
	by      order
	reverse bool
	filter  string

	mode          mode
	selected      string     // the name of a lock; the line follows it
	line, first   int        // of shown: the selected one, and the first on the screen
	asked         locks.Lock // what a question is about, as it was then
	width, height int
	paused, left  bool
	reading       bool
	steps, reads  int    // steps of this scan so far; locks of the last refresh
	passes        int    // scans that are complete
	said          string // what became of the last action
	failed        error  // of the last refresh or scan
}

func newModel(r *locks.Reader, o Options) *model {
	return &model{reader: r, Options: o, rows: make(map[string]*row), by: orders[0]}
}

func (m *model) begin() []command { return []command{m.step(nil), after(m.Interval, tick{})} }

// update enters what has happened, and returns what to do next.
func (m *model) update(msg message) []command {
	switch msg := msg.(type) {
	case *tcell.EventResize:
		m.width, m.height = msg.Size()
		m.scroll()
	case *tcell.EventKey:
		return m.key(msg)
	case scanned:
		return m.scanned(msg)
	case nextScan:
		if msg.scan == nil {
			m.steps = 0
		}
		if m.paused {
			return []command{m.pace(scanned{scan: msg.scan})}
		}
		return []command{m.step(msg.scan)}
	case read:
		m.enter(msg)
	case forced:
		m.told(msg)
		return m.refresh()
	case tick:
		next := []command{after(m.Interval, tick{})}
		if m.paused {
			return next
		}
		return append(next, m.refresh()...)
	}
	return nil
}

// scanned enters what a step of the scan found.
func (m *model) scanned(msg scanned) []command {
	if msg.err != nil {
		m.failed = msg.err
	} else if msg.scan.Done() {
		m.passes++
	}
	next := []command{m.pace(msg)}
	for _, name := range msg.names {
		if m.rows[name] == nil {
			m.rows[name] = &row{Lock: locks.Lock{Name: name}}
			m.turns = append(m.turns, name)
		}
	}
	if len(msg.names) > 0 && len(m.shown) == 0 {
		next = append(next, m.refresh()...) // at the start, do not wait for a tick
	}
	return next
}

func (m *model) told(msg forced) {
	name := locks.Printable(msg.name)
	switch {
	case errors.Is(msg.err, locks.ErrChanged):
		m.said = name + ": has changed hands and was left as it is"
	case msg.err != nil:
		m.said = fmt.Sprintf("%s: %v", name, msg.err)
	case msg.opened:
		m.said = name + ": opened"
	default:
		m.said = name + ": was not locked any more"
	}
}

// forget removes the names of rows that are gone from the turns.
func (m *model) forget() {
	m.turns = slices.DeleteFunc(m.turns, func(name string) bool { return m.rows[name] == nil })
}

// arrange sorts the table again; the selection stays at its lock.
func (m *model) arrange() {
	m.shown = arrange(m.rows, m.filter, m.by, m.reverse)
	if i := slices.IndexFunc(m.shown, func(r *row) bool { return r.Name == m.selected }); i >= 0 {
		m.line = i
	}
	m.scroll()
}

// scroll keeps the selection on the screen.
func (m *model) scroll() {
	m.line = max(0, min(m.line, len(m.shown)-1))
	m.selected = ""
	if r := m.current(); r != nil {
		m.selected = r.Name
	}
	n := m.lines()
	m.first = max(0, min(m.first, m.line, len(m.shown)-n))
	m.first = max(m.first, m.line-n+1)
}

// lines is how many locks fit on the screen.
func (m *model) lines() int { return max(1, m.height-headLines-footLines) }

// page returns the rows on the screen.
func (m *model) page() []*row {
	return m.shown[min(m.first, len(m.shown)):min(m.first+m.lines(), len(m.shown))]
}

// current returns the selected row, nil if there is none.
func (m *model) current() *row {
	if m.line >= len(m.shown) {
		return nil
	}
	return m.shown[m.line]
}
