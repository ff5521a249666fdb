package top

import (
	"fmt"
	"strings"

	"github.com/gdamore/tcell/v2"
	"github.com/relock-go/relock/cmd/relock/internal/locks"
	"github.com/rivo/uniseg"
)

const headLines, footLines = 3, 2

var (
	plain  = tcell.StyleDefault
	bold   = plain.Bold(true)
	faint  = plain.Dim(true)
	marked = plain.Reverse(true)
	urgent = plain.Bold(true).Foreground(tcell.ColorRed)
)

var help = []string{
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
	"",
	"any key goes back",
}

// line is one line of the screen.
type line struct {
	text  string
	style tcell.Style
}

// draw shows the model.
func (m *model) draw(screen tcell.Screen) {
	screen.Clear()
	for y, l := range m.view() {
		screen.PutStrStyled(0, y, locks.Escaped(l.text), l.style)
	}
	screen.Show()
}

// view returns the lines of the screen.
func (m *model) view() []line {
	lines := m.head()
	switch m.mode {
	case helping:
		lines = lines[:headLines-1]
		for _, text := range help {
			lines = append(lines, line{text, plain})
		}
	case detail:
		lines = append(lines[:headLines-1], m.details()...)
	default:
		for _, r := range m.page() {
			lines = append(lines, m.tableLine(r))
		}
		if len(m.shown) == 0 {
			lines = append(lines, line{m.nothing(), faint})
		}
	}
	room := max(0, m.height-footLines)
	lines = lines[:min(len(lines), room)]
	for len(lines) < room {
		lines = append(lines, line{})
	}
	return append(lines, m.foot()...)
}

func (m *model) head() []line {
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
	return []line{
		{"relock top  " + status, bold}, {},
		{m.cells("NAME", "KIND", "HOLDER", "HELD", "TTL", "WAITERS"), bold},
	}
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
	if uniseg.StringWidth(text) > columns {
		var b strings.Builder
		left := columns - 1
		for g := uniseg.NewGraphemes(text); g.Next() && g.Width() <= left; left -= g.Width() {
			b.WriteString(g.Str())
		}
		text = b.String() + "…"
	}
	return text + strings.Repeat(" ", max(0, columns-uniseg.StringWidth(text)))
}

func (m *model) tableLine(r *row) line {
	by, held, ttl := holder(r.Lock), locks.HeldFor(r.Lock), locks.TimeToLive(r.Lock)
	style := plain
	if !r.Locked() {
		by, held, ttl, style = "-", "-", "-", faint
	}
	if r.Name == m.selected {
		style = marked
	}
	return line{m.cells(locks.Printable(r.Name), r.Kind(), by, held, ttl, fmt.Sprint(r.Waiters)), style}
}

// holder says who holds a lock, in a word.
func holder(l locks.Lock) string {
	if n := len(l.Holders); n > 1 {
		return fmt.Sprintf("%d readers", n)
	}
	return l.Holder()
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
func (m *model) foot() []line {
	load := fmt.Sprintf("load: at most %d SCANs of %d keys and %d reads a second; this scan: %d, last refresh: %d of %d locks",
		m.Steps, locks.Step, m.Reads, m.steps, m.reads, len(m.rows))
	last := line{"Enter inspect  u open  / filter  s sort  r reverse  p pause  ? help  q quit", faint}
	switch {
	case m.mode == asking:
		last = line{fmt.Sprintf("open %s, which %s has held for %s? Its holder is told. [y/N]",
			locks.Printable(m.asked.Name), holder(m.asked), locks.HeldFor(m.asked)), urgent}
	case m.said != "":
		last = line{m.said, plain}
	case m.failed != nil:
		last = line{m.failed.Error(), urgent}
	}
	return []line{{load, faint}, last}
}

func (m *model) details() []line {
	r := m.current()
	if r == nil {
		return []line{{"it is gone", plain}}
	}
	lines := []line{
		{locks.Printable(r.Name), bold},
		{fmt.Sprintf("mode       %s (%s)", r.Mode, r.Kind()), plain},
		{"held       " + locks.HeldFor(r.Lock), plain},
		{"TTL        " + locks.TimeToLive(r.Lock), plain},
		{fmt.Sprintf("waiters    %d", r.Waiters), plain},
	}
	for _, h := range r.Holders {
		lines = append(lines, line{fmt.Sprintf("holder     %s (%s)", locks.Who(h), h.ID), plain})
	}
	return append(lines, line{}, line{"u opens it, any other key goes back", faint})
}
