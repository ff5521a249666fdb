package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// sheet is a section as text.
type sheet struct {
	title, remark string
	head          []string
	lines         [][]string
	best          []int // for each line, the column with the best figure; 0: none
	notes         []string
	grid          [][]string // one more table, with its head
}

const none = "–"

func (r *report) sheets() (all []sheet) {
	for _, section := range r.sections {
		s := sheet{title: section, remark: r.remarks[section], grid: r.grids[section], head: []string{"figure"}}
		for _, p := range r.peers {
			s.head = append(s.head, p.title)
		}
		s.head = append(s.head, "best other", "best that renews", "goal")
		for _, row := range r.rows[section] {
			line, best := r.line(row)
			s.lines, s.best = append(s.lines, line), append(s.best, best)
		}
		if len(r.faults[section]) > 0 {
			s.lines, s.best = append(s.lines, r.faultLine(section)), append(s.best, 0)
		}
		for _, p := range r.peers {
			if f := r.faults[section][p.id]; f != nil {
				for _, note := range f.notes {
					s.notes = append(s.notes, p.title+": "+note)
				}
			}
		}
		all = append(all, s)
	}
	return all
}

// line returns the cells of a row. The last three say how many times as good relock
// is as the best of the others, and what is aimed at.
func (r *report) line(row *row) (cells []string, best int) {
	cells = []string{row.name}
	bestPeer := row.best(r.peers)
	for i, p := range r.peers {
		if p == bestPeer {
			best = i + 1
		}
		text := none
		if v, ok := row.value(p.id); ok {
			text = row.unit.format(v)
		}
		cells = append(cells, text)
	}
	for _, renewing := range []bool{false, true} {
		text := ""
		if t, ok := row.against(r.peers, renewing); ok {
			text = times.format(t)
		}
		cells = append(cells, text)
	}
	goal := ""
	if met, ok := row.met(r.peers); ok {
		switch {
		case row.limit > 0:
			goal = "≤ " + row.unit.format(row.limit)
		case row.renewing:
			goal = fmt.Sprintf("≥ %g × of those that renew", row.goal)
		default:
			goal = fmt.Sprintf("≥ %g ×", row.goal)
		}
		if met {
			goal += ": met"
		} else {
			goal += ": MISSED"
		}
	}
	return append(cells, goal), best
}

func (r *report) faultLine(section string) []string {
	line := []string{"violations / stuck / errors"}
	for _, p := range r.peers {
		text := none
		if f := r.faults[section][p.id]; f != nil {
			text = formatFaults(f)
		}
		line = append(line, text)
	}
	return append(line, "", "", "")
}

// print writes the table.
func (r *report) print(w io.Writer) error {
	var b strings.Builder
	for _, line := range r.machine {
		fmt.Fprintln(&b, line)
	}
	sheets := r.sheets()
	widths := columnWidths(sheets)
	for _, s := range sheets {
		fmt.Fprintf(&b, "\n== %s\n", s.title)
		align(&b, append([][]string{s.head}, s.lines...), widths)
		if s.grid != nil {
			b.WriteString("\n")
			align(&b, s.grid, columnWidths([]sheet{{head: s.grid[0], lines: s.grid[1:]}}))
		}
		for _, note := range s.notes {
			fmt.Fprintf(&b, "   %s\n", note)
		}
	}
	_, err := io.WriteString(w, trimRight(b.String()))
	return err
}

// align writes lines with cells as wide as their columns.
func align(b *strings.Builder, lines [][]string, widths []int) {
	for _, line := range lines {
		for i, cell := range line {
			b.WriteString(cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
		}
		b.WriteString("\n")
	}
}

// columnWidths returns how wide each column must be for all of the sheets.
func columnWidths(sheets []sheet) (widths []int) {
	for _, s := range sheets {
		for _, line := range append([][]string{s.head}, s.lines...) {
			for i, cell := range line {
				if i == len(widths) {
					widths = append(widths, 0)
				}
				widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			}
		}
	}
	return widths
}

// trimRight takes the blanks off the ends of lines.
func trimRight(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n")
}

// markdown writes the same for a README. The best figure of each row is bold.
func (r *report) markdown(w io.Writer) error {
	var b strings.Builder
	for _, line := range r.machine {
		fmt.Fprintf(&b, "%s  \n", escape(line))
	}
	for _, s := range r.sheets() {
		fmt.Fprintf(&b, "\n**%s**", escape(s.title))
		if s.remark != "" {
			fmt.Fprintf(&b, ": %s", escape(s.remark))
		}
		b.WriteString("\n\n")
		markdownTable(&b, s.head, s.lines, s.best)
		if s.grid != nil {
			b.WriteString("\n")
			markdownTable(&b, s.grid[0], s.grid[1:], make([]int, len(s.grid)))
		}
		for i, note := range s.notes {
			if i == 0 {
				b.WriteString("\n")
			}
			fmt.Fprintf(&b, "- %s\n", escape(note))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// markdownTable writes a table. The best cell of each line is bold; 0: none.
func markdownTable(b *strings.Builder, head []string, lines [][]string, best []int) {
	b.WriteString("| " + strings.Join(head, " | ") + " |\n")
	b.WriteString("|" + strings.Repeat("---|", len(head)) + "\n")
	for i, line := range lines {
		for j, cell := range line {
			cell = escape(cell)
			if j > 0 && j == best[i] {
				cell = "**" + cell + "**"
			}
			fmt.Fprintf(b, "| %s ", cell)
		}
		b.WriteString("|\n")
	}
}

func escape(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "\n", " ").Replace(text)
}
