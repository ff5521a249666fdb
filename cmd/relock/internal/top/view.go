package top

import (
	"fmt"
	"strings"

	"github.com/gdamore/tcell/v2"
	"github.com/relock-go/relock/cmd/relock/internal/locks"
	"github.com/rivo/uniseg"
)

const headLines, footLines = 3, 4

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
	"Heat is who has most waiters, then whose holder changes most often. A \">\"",
	"means that a lock has been seen for that long: readers and Redisson's locks",
	"have no token that tells since when they are held.",
	"",
	"A lock shown as held may be kept idle by its process (WithKeep): Redis does",
	"not tell. It is given up when a Lock of another process waits for it.",
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
	status := fmt.Sprintf("%d held, %d waiting, by %s%s", held, waiters, m.by.name, direction)
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
		{"relock top  " + status + "  " + m.Server, bold}, {},
		{m.cells("NAME", "KIND", "HOLDER", "HELD", "TTL", "WAITERS"), bold},
	}
}

// cells returns one line of the table. Name and holder share what the others leave; what does not fit there is shown
// in whole below, for the selected lock.
func (m *model) cells(name, kind, holder, held, ttl, waiters string) string {
	const others = 9 + 7 + 6 + 7 + 5*2
	room := max(20, m.width-others)
	forHolder := min(36, room*11/20)
	return fit(name, room-forHolder) + "  " + fit(kind, 9) + "  " + fit(holder, forHolder) + "  " +
		fit(held, 7) + "  " + fit(ttl, 6) + "  " + fit(waiters, 7)
}

// fit returns a text in so many columns. What is too long loses its middle: names begin alike, and a process's number
// is at the end of its label.
func fit(text string, columns int) string {
	if uniseg.StringWidth(text) > columns {
		var all []string
		for g := uniseg.NewGraphemes(text); g.Next(); {
			all = append(all, g.Str())
		}
		head, tail := "", ""
		for i, j := 0, len(all)-1; i <= j; i, j = i+1, j-1 {
			if uniseg.StringWidth(head+all[i]+tail) > columns-1 {
				break
			}
			head += all[i]
			if uniseg.StringWidth(head+all[j]+tail) > columns-1 {
				break
			}
			tail = all[j] + tail
		}
		text = head + "…" + tail
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
	n := len(l.Holders)
	switch {
	case l.Permits > 0:
		return fmt.Sprintf("%d of %d permits", n, l.Permits)
	case n > 1:
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
	load := fmt.Sprintf("load: at most %d SCANs of %d keys, %d reads a second; now %d, %d of %d locks",
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
	chosen := ""
	if r := m.current(); r != nil {
		chosen = locks.Printable(r.Name)
		if r.Locked() {
			chosen += "  " + holder(r.Lock)
		}
	}
	foot := wrapped(last, m.width)
	if len(foot) == 1 {
		foot = append([]line{{load, faint}}, foot...)
	}
	if len(foot) == 2 {
		foot = append(wrapped(line{chosen, plain}, m.width), foot...)
	}
	for len(foot) < footLines {
		foot = append([]line{{}}, foot...)
	}
	return foot[len(foot)-footLines:]
}

// wrapped returns a line in as many as it needs.
func wrapped(l line, width int) []line {
	var all []line
	var b strings.Builder
	for g := uniseg.NewGraphemes(locks.Escaped(l.text)); g.Next(); {
		if width > 0 && uniseg.StringWidth(b.String())+g.Width() > width {
			all = append(all, line{b.String(), l.style})
			b.Reset()
		}
		b.WriteString(g.Str())
	}
	return append(all, line{b.String(), l.style})
}

func (m *model) details() []line {
	r := m.current()
	if r == nil {
		return []line{{"it is gone", plain}}
	}
	lines := []line{
		{locks.Printable(r.Name), bold},
		{"mode       " + r.Kind(), plain},
		{"held       " + locks.HeldFor(r.Lock), plain},
		{"TTL        " + locks.TimeToLive(r.Lock), plain},
		{fmt.Sprintf("waiters    %d", r.Waiters), plain},
	}
	for _, h := range r.Holders {
		who := locks.Who(h)
		if r.Permits > 0 {
			who += fmt.Sprintf(", slot %d", h.Slot)
		}
		lines = append(lines, line{"holder     " + who, plain}, line{"           " + locks.Printable(h.ID), plain})
	}
	return append(lines, line{}, line{"u opens it, any other key goes back", faint})
}
