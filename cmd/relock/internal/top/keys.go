package top

import (
	"slices"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/relock-go/relock/cmd/relock/internal/locks"
)

// key acts on a key.
func (m *model) key(k tea.KeyMsg) tea.Cmd {
	if k.Type == tea.KeyCtrlC {
		return tea.Quit
	}
	switch m.mode {
	case filtering:
		m.typeFilter(k)
	case asking:
		m.mode = browsing
		if r := m.current(); k.String() == "y" && r != nil && r.Name == m.target {
			return m.force(r.Name)
		}
		m.said = locks.Printable(m.target) + ": left as it is"
	case detail, helping:
		m.mode = browsing
		if k.String() == "u" && m.current() != nil {
			m.ask()
		}
	default:
		return m.browse(k)
	}
	return nil
}

func (m *model) browse(k tea.KeyMsg) tea.Cmd {
	m.said = ""
	switch k.String() {
	case "q":
		return tea.Quit
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup":
		m.move(-m.lines())
	case "pgdown", " ":
		m.move(m.lines())
	case "home", "g":
		m.move(-len(m.shown))
	case "end", "G":
		m.move(len(m.shown))
	case "/":
		m.mode = filtering
	case "esc":
		m.filter = ""
		m.arrange()
	case "r":
		m.reverse = !m.reverse
		m.arrange()
	case "p":
		m.paused = !m.paused
	case "?":
		m.mode = helping
	case "enter", "i":
		if m.current() != nil {
			m.mode = detail
		}
	case "u":
		m.ask()
	case "s":
		i := slices.IndexFunc(orders, func(o order) bool { return o.name == m.by.name })
		m.sort(orders[(i+1)%len(orders)])
	case "n", "w", "t":
		m.sort(orders[slices.IndexFunc(orders, func(o order) bool { return o.name[:1] == k.String() })])
	}
	return nil
}

func (m *model) sort(by order) {
	m.by = by
	m.arrange()
}

func (m *model) move(by int) {
	m.line = max(0, min(m.line+by, len(m.shown)-1))
	m.scroll()
}

// ask asks whether to open the selected lock. The answer is for that lock, also if the table
// moves.
func (m *model) ask() {
	if r := m.current(); r != nil && r.Locked() {
		m.mode, m.target = asking, r.Name
	}
}

// typeFilter changes the filter.
func (m *model) typeFilter(k tea.KeyMsg) {
	switch k.Type {
	case tea.KeyEnter:
		m.mode = browsing
	case tea.KeyEsc:
		m.mode, m.filter = browsing, ""
	case tea.KeyBackspace:
		if r := []rune(m.filter); len(r) > 0 {
			m.filter = string(r[:len(r)-1])
		}
	case tea.KeyRunes, tea.KeySpace:
		m.filter += string(k.Runes)
	}
	m.arrange()
}
