package top

import (
	"context"
	"time"

	"github.com/relock-go/relock/cmd/relock/internal/locks"
)

const askWithin = 5 * time.Second

// What the commands below tell the model.
type (
	scanned struct {
		scan  *locks.Scan // nil if it failed to start
		names []string
		err   error
	}
	read struct {
		asked []string
		locks []locks.Lock
		err   error
	}
	forced struct {
		name   string
		opened bool
		err    error
	}
	tick     struct{}
	nextScan struct{ scan *locks.Scan } // nil: begin one
)

// step makes one step of a scan, or begins one.
func (m *model) step(s *locks.Scan) command {
	m.steps++
	client, prefix, pattern := m.reader.Client, m.reader.Prefix, m.Pattern
	return func(ctx context.Context) message {
		ctx, cancel := context.WithTimeout(ctx, askWithin)
		defer cancel()
		if s == nil {
			var err error
			if s, err = locks.NewScan(ctx, client, prefix, pattern); err != nil {
				return scanned{err: err}
			}
		}
		names, err := s.Next(ctx)
		return scanned{s, names, err}
	}
}

// pace delays the next step, so that a scan keeps to its pace; it starts again no more often than
// the table is refreshed.
func (m *model) pace(s scanned) command {
	d := time.Second / time.Duration(m.Steps)
	if s.scan == nil || s.err != nil || s.scan.Done() {
		d = max(d, m.Interval)
		s.scan = nil
	}
	return after(d, nextScan{s.scan})
}

// refresh reads the locks that are due: those never read, those on the screen, then the others
// in turn. Only one refresh is under way.
func (m *model) refresh() []command {
	names := m.due()
	if m.reading || len(names) == 0 {
		return nil
	}
	m.reading, m.reads = true, len(names)
	reader := m.reader
	return []command{func(ctx context.Context) message {
		ctx, cancel := context.WithTimeout(ctx, askWithin)
		defer cancel()
		all, err := reader.ReadAll(ctx, names)
		return read{names, all, err}
	}}
}

// due returns the names of the locks to read next, at most m.Reads for each second of the
// interval.
func (m *model) due() []string {
	most := max(1, int(float64(m.Reads)*m.Interval.Seconds()))
	seen := make(map[string]bool)
	var names []string
	add := func(name string) {
		if len(names) < most && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	for name, r := range m.rows {
		if r.read.IsZero() {
			add(name)
		}
	}
	for _, r := range m.page() {
		add(r.Name)
	}
	for range m.turns {
		if len(names) >= most {
			break
		}
		name := m.turns[0]
		m.turns = append(m.turns[1:], name)
		if m.rows[name] != nil {
			add(name)
		}
	}
	return names
}

// enter puts what was read into the table.
func (m *model) enter(msg read) {
	m.reading, m.failed = false, msg.err
	if msg.err != nil && len(msg.locks) == 0 {
		return
	}
	now := time.Now()
	got := make(map[string]bool)
	for _, l := range msg.locks {
		got[l.Name] = true
		if r := m.rows[l.Name]; r != nil {
			r.update(l, now)
		}
	}
	gone := false
	for _, name := range msg.asked {
		if r := m.rows[name]; r != nil && (r.over(now) || !got[name]) {
			delete(m.rows, name)
			gone = true
		}
	}
	if gone {
		m.forget()
	}
	m.arrange()
}

// force opens a lock if nobody holds it but those whom the question showed.
func (m *model) force(l locks.Lock) command {
	reader := m.reader
	return func(ctx context.Context) message {
		ctx, cancel := context.WithTimeout(ctx, askWithin)
		defer cancel()
		opened, err := reader.Open(ctx, l)
		return forced{l.Name, opened, err}
	}
}
