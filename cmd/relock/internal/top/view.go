package top

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"
	"github.com/relock-go/relock/cmd/relock/internal/locks"
)

const headLines, footLines = 3, 2

var (
	bold     = lipgloss.NewStyle().Bold(true)
	faint    = lipgloss.NewStyle().Faint(true)
	marked   = lipgloss.NewStyle().Reverse(true)
	urgent   = lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Color("1"))
	helpText = []string{
		"↑ ↓ j k, PgUp PgDn, g G    move",
		"Enter                      all that is known of a lock",
		"u                          open it, after a question",
		"/                          filter by name or holder; Esc ends it",
		"s                          sort by heat, name, waiters, held, TTL, kind",
		"n w t                      sort by name, waiters, TTL",
		"r                          reverse the order",
		"p                          pause: ask Redis for nothing",
		"q                          leave",
		"",
		"Heat is who has most waiters, then whose holder changes most often. A \">\" means that a lock",
		"has been held for longer than that: Redis keeps the time of an acquisition for a minute.",
	}
)

// View implements tea.Model.
func (m *model) View() string {
	if m.height == 0 {
		return ""
	}
	lines := m.head()
	switch m.mode {
	case helping:
		lines = append(lines, help()...)
	case detail:
		lines = append(lines, m.details()...)
	default:
		for _, r := range m.page() {
			lines = append(lines, m.tableLine(r))
		}
		if len(m.shown) == 0 {
			lines = append(lines, faint.Render(m.nothing()))
		}
	}
	room := m.height - footLines
	if len(lines) > room {
		lines = lines[:max(0, room)]
	}
	for len(lines) < room {
		lines = append(lines, "")
	}
	lines = append(lines, m.foot()...)
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], m.width, "…")
	}
	return strings.Join(lines, "\n")
}

func (m *model) head() []string {
	held, waiters := 0, 0
	for _, r := range m.rows {
		if r.Locked() {
			held++
		}
		waiters += r.Waiters
	}
	direction := ""
	if m.reverse {
		direction = ", reversed"
	}
	status := fmt.Sprintf("%s  %d held, %d waiting, by %s%s", m.Server, held, waiters, m.by.name, direction)
	if m.Pattern != "" {
		status += ", only " + m.Pattern
	}
	if m.filter != "" || m.mode == filtering {
		status += ", filter: " + m.filter
	}
	if m.mode == filtering {
		status += "▏"
	}
	if m.paused {
		status += ", paused"
	}
	return []string{bold.Render("relock top") + "  " + status, "", bold.Render(m.cells("NAME", "KIND", "HOLDER", "HELD", "TTL", "WAITERS"))}
}

// cells returns one line of the table. Name and holder share what the others leave.
func (m *model) cells(name, kind, holder, held, ttl, waiters string) string {
	const others = 6 + 8 + 7 + 7 + 5*2
	room := max(20, m.width-others)
	forHolder := min(36, room/2)
	return fit(name, room-forHolder) + "  " + fit(kind, 6) + "  " + fit(holder, forHolder) + "  " +
		fit(held, 8) + "  " + fit(ttl, 7) + "  " + fit(waiters, 7)
}

// fit returns a text in so many columns.
func fit(text string, columns int) string {
	text = ansi.Truncate(text, columns, "…")
	return text + strings.Repeat(" ", max(0, columns-ansi.StringWidth(text)))
}

func (m *model) tableLine(r *row) string {
	holder, held, ttl := r.Holder(), locks.HeldFor(r.Lock), locks.TimeToLive(r.Lock)
	if n := len(r.Holders); n > 1 {
		holder = fmt.Sprintf("%d readers", n)
	}
	if !r.Locked() {
		holder, held, ttl = "-", "-", "-"
	}
	line := m.cells(locks.Printable(r.Name), r.Kind, holder, held, ttl, fmt.Sprint(r.Waiters))
	switch {
	case r.Name == m.selected:
		return marked.Render(line)
	case !r.Locked():
		return faint.Render(line)
	}
	return line
}

// nothing says why the table is empty.
func (m *model) nothing() string {
	switch {
	case m.passes == 0:
		return "looking for locks…"
	case m.filter != "":
		return "no lock matches the filter"
	}
	return "no lock is held"
}

// foot says what the table costs, and what keys do or what is asked.
func (m *model) foot() []string {
	load := fmt.Sprintf("load: at most %d SCANs of %d keys and %d reads a second; this scan: %d, last refresh: %d of %d locks",
		m.Steps, locks.Step, m.Reads, m.steps, m.reads, len(m.rows))
	last := faint.Render("Enter inspect  u open  / filter  s sort  r reverse  p pause  ? help  q quit")
	switch {
	case m.mode == asking:
		last = urgent.Render(fmt.Sprintf("open %s, which %s has held for %s? Its holder is told. [y/N]",
			locks.Printable(m.target), m.rowOf(m.target).Holder(), locks.HeldFor(m.rowOf(m.target).Lock)))
	case m.said != "":
		last = m.said
	case m.failed != nil:
		last = urgent.Render(m.failed.Error())
	}
	return []string{faint.Render(load), last}
}

// rowOf returns the row of a name, an empty one if it is gone.
func (m *model) rowOf(name string) *row {
	if r := m.rows[name]; r != nil {
		return r
	}
	return &row{}
}

func (m *model) details() []string {
	r := m.current()
	if r == nil {
		return []string{"it is gone"}
	}
	lines := []string{
		bold.Render(locks.Printable(r.Name)),
		fmt.Sprintf("mode       %s (%s)", r.Mode, r.Kind),
		"held       " + locks.HeldFor(r.Lock),
		"TTL        " + locks.TimeToLive(r.Lock),
		fmt.Sprintf("waiters    %d", r.Waiters),
	}
	for _, h := range r.Holders {
		lines = append(lines, fmt.Sprintf("holder     %s (%s)", locks.Who(h), h.ID))
	}
	return append(lines, "", faint.Render("u opens it, any other key goes back"))
}

func help() []string {
	return append(helpText, "", faint.Render("any key goes back"))
}
