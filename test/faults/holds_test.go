package faults_test

import (
	"context"
	"sync"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
)

// holds collects certain holds of goroutines of this process.
type holds struct {
	start time.Time

	mu   sync.Mutex // protects following
	list []certainHold
}

// hold takes m, has it for a while, and ends it. It notes what was certain of that.
func (h *holds) hold(ctx context.Context, m *relock.Mutex, who string, d time.Duration) (bool, error) {
	if err := m.Lock(ctx); err != nil {
		return false, err
	}
	c := certainHold{who: who, from: time.Since(h.start), token: m.FencingToken()}
	c.to = c.from
	end := time.Now().Add(d)
	for {
		if deadline, ok := m.Deadline(); ok {
			c.to = deadline.Sub(h.start)
		}
		if !time.Now().Before(end) || kit.IsClosed(m.Done()) {
			break
		}
		time.Sleep(min(time.Millisecond, d))
	}
	c.to = min(c.to, time.Since(h.start))
	err := m.Unlock(kit.Background)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, c)
	return true, kit.LostOrNil(err)
}

// count counts all holds.
func (h *holds) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.list)
}
