package redistest

import (
	"strings"
	"sync"
)

// A lineQueue holds lines until they are taken, without a limit, so that a
// process never blocks because its test does not read. Use newLineQueue.
type lineQueue struct {
	more chan struct{} // has room for one; filled while there may be lines

	mu    sync.Mutex // protects following
	lines []string
}

func newLineQueue() *lineQueue { return &lineQueue{more: make(chan struct{}, 1)} }

func (q *lineQueue) put(line string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lines = append(q.lines, line)
	q.signal()
}

func (q *lineQueue) take() (string, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lines) == 0 {
		return "", false
	}
	line := q.lines[0]
	q.lines = q.lines[1:]
	if len(q.lines) > 0 {
		q.signal() // another goroutine may wait for the next line
	}
	return line, true
}

func (q *lineQueue) signal() {
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// A lineWriter calls line for each whole line written to it. One goroutine writes.
type lineWriter struct {
	line    func(string)
	partial string
}

func (w *lineWriter) Write(b []byte) (int, error) {
	w.partial += string(b)
	for {
		line, rest, ok := strings.Cut(w.partial, "\n")
		if !ok {
			return len(b), nil
		}
		w.line(line)
		w.partial = rest
	}
}
