package top

import (
	"slices"

	"github.com/gdamore/tcell/v2"
	"github.com/relock-go/relock/cmd/relock/internal/locks"
)

// key acts on a key.
func (m *model) key(k *tcell.EventKey) []command {
	if k.Key() == tcell.KeyCtrlC {
		m.left = true
		return nil
	}
	switch m.mode {
	case filtering:
		m.typeFilter(k)
	case asking:
		m.mode = browsing
		if k.Rune() == 'y' {
			return []command{m.force(m.asked)}
		}
		m.said = locks.Printable(m.asked.Name) + ": left as it is"
	case detail, helping:
		m.mode = browsing
		if k.Rune() == 'u' && m.current() != nil {
			m.ask()
		}
	default:
		return m.browse(k)
	}
	return nil
}

// moves are the keys that move the selection, and by how many lines; the last two by all.
func (m *model) moves(k *tcell.EventKey) (lines int, moves bool) {
	switch {
	case k.Key() == tcell.KeyUp, k.Rune() == 'k':
		return -1, true
	case k.Key() == tcell.KeyDown, k.Rune() == 'j':
		return 1, true
	case k.Key() == tcell.KeyPgUp:
		return -m.lines(), true
	case k.Key() == tcell.KeyPgDn, k.Rune() == ' ':
		return m.lines(), true
	case k.Key() == tcell.KeyHome, k.Rune() == 'g':
		return -len(m.shown), true
	case k.Key() == tcell.KeyEnd, k.Rune() == 'G':
		return len(m.shown), true
	}
	return 0, false
}

func (m *model) browse(k *tcell.EventKey) []command {
	m.said = ""
	if lines, ok := m.moves(k); ok {
		m.move(lines)
		return nil
	}
	switch k.Key() {
	case tcell.KeyEsc:
		m.filter = ""
		m.arrange()
	case tcell.KeyEnter:
		m.inspect()
	case tcell.KeyRune:
		m.letter(k.Rune())
	}
	return nil
}

func (m *model) letter(r rune) {
	switch r {
	case 'q':
		m.left = true
	case '/':
		m.mode = filtering
	case 'r':
		m.reverse = !m.reverse
		m.arrange()
	case 'p':
		m.paused = !m.paused
	case '?':
		m.mode = helping
	case 'i':
		m.inspect()
	case 'u':
		m.ask()
	case 's':
		i := slices.IndexFunc(orders, func(o order) bool { return o.name == m.by.name })
		m.sort(orders[(i+1)%len(orders)])
	case 'n', 'w', 't':
		m.sort(orders[slices.IndexFunc(orders, func(o order) bool { return rune(o.name[0]) == r })])
	}
}

func (m *model) inspect() {
	if m.current() != nil {
		m.mode = detail
	}
}

func (m *model) sort(by order) {
	m.by = by
	m.arrange()
}

func (m *model) move(by int) {
	m.line = max(0, min(m.line+by, len(m.shown)-1))
	m.scroll()
}

// ask asks whether to open the selected lock. The answer is for that lock and its holders as they
// are now, also if the table changes.
func (m *model) ask() {
	if r := m.current(); r != nil && r.Locked() {
		m.mode, m.asked = asking, r.Lock
	}
}

// typeFilter changes the filter.
func (m *model) typeFilter(k *tcell.EventKey) {
	switch k.Key() {
	case tcell.KeyEnter:
		m.mode = browsing
	case tcell.KeyEsc:
		m.mode, m.filter = browsing, ""
	case tcell.KeyBackspace, tcell.KeyBackspace2:
		if r := []rune(m.filter); len(r) > 0 {
			m.filter = string(r[:len(r)-1])
		}
	case tcell.KeyRune:
		m.filter += string(k.Rune())
	}
	m.arrange()
}
