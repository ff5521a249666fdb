package top

import (
	"context"
	"fmt"
	"slices"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/relock-go/relock/cmd/relock/internal/locks"
)

// Options are what the user chooses at the start.
type Options struct {
	Pattern  string        // of the names to show
	Interval time.Duration // between refreshes
	Steps    int           // of a scan, a second
	Reads    int           // of locks, a second
	Server   string        // what to call the server
}

// Run shows the table until the user leaves it.
func Run(ctx context.Context, r *locks.Reader, o Options) error {
	m := &model{ctx: ctx, reader: r, Options: o, rows: make(map[string]*row), by: orders[0]}
	_, err := tea.NewProgram(m, tea.WithAltScreen(), tea.WithContext(ctx)).Run()
	return err
}

// mode is what keys mean.
type mode int

const (
	browsing  mode = iota
	filtering      // they are the filter
	asking         // they answer whether to force
	detail         // of the selected lock
	helping
)

// model is the state of the screen. Bubble Tea calls it from one goroutine; the commands in
// feed.go only use what does not change.
type model struct {
	Options
	ctx    context.Context
	reader *locks.Reader

	rows    map[string]*row
	turns   []string // the names of rows, in the order in which they are read
	shown   []*row
	by      order
	reverse bool
	filter  string

	mode          mode
	selected      string // the name of a lock; the line follows it
	line, first   int    // of shown: the selected one, and the first on the screen
	target        string // the lock that a question is about
	width, height int
	paused        bool
	reading       bool
	steps, reads  int    // steps of this scan so far; locks of the last refresh
	passes        int    // scans that are complete
	said          string // what became of the last action
	failed        error  // of the last refresh or scan
}

func (m *model) Init() tea.Cmd { return tea.Batch(m.step(nil), m.ticking()) }

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		m.scroll()
	case tea.KeyMsg:
		return m, m.key(msg)
	case scanned:
		return m, m.scanned(msg)
	case nextScan:
		if msg.scan == nil {
			m.steps = 0
		}
		if m.paused {
			return m, m.after(scanned{scan: msg.scan})
		}
		return m, m.step(msg.scan)
	case read:
		m.enter(msg)
	case forced:
		m.told(msg)
		return m, m.refresh()
	case tick:
		cmds := []tea.Cmd{m.ticking()}
		if !m.paused {
			cmds = append(cmds, m.refresh())
		}
		return m, tea.Batch(cmds...)
	}
	return m, nil
}

// scanned enters what a step of the scan found.
func (m *model) scanned(msg scanned) tea.Cmd {
	if msg.err != nil {
		m.failed = msg.err
	} else if msg.scan.Done() {
		m.passes++
	}
	var more tea.Cmd
	for _, name := range msg.names {
		if m.rows[name] == nil {
			m.rows[name] = &row{Lock: locks.Lock{Name: name}}
			m.turns = append(m.turns, name)
		}
	}
	if len(msg.names) > 0 && len(m.shown) == 0 {
		more = m.refresh() // at the start, do not wait for a tick
	}
	return tea.Batch(more, m.after(msg))
}

func (m *model) told(msg forced) {
	name := locks.Printable(msg.name)
	switch {
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
