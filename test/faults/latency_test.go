package faults_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
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

// by counts the holds of one of the parties.
func (h *holds) by(who string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.list {
		if c.who == who {
			n++
		}
	}
	return n
}

func TestCertainHoldsDoNotOverlapAtAnyLatency(t *testing.T) {
	t.Parallel()
	const lease = 300 * time.Millisecond
	s, p := kit.Proxied(t)
	near := kit.NewSession(t, s, relock.WithLease(lease))
	far := kit.NewSession(t, p, relock.WithLease(lease))
	h := &holds{start: time.Now()}
	for roundTrip := time.Duration(0); roundTrip <= 2*lease; roundTrip += lease * 2 / 5 {
		p.Delay(roundTrip / 2)
		ctx, cancel := context.WithTimeout(kit.Background, 2*lease+500*time.Millisecond)
		who := fmt.Sprint("far, ", roundTrip)
		err := kit.Together(3, func(i int) error {
			m, name := near.Mutex("it"), "near"
			if i == 0 {
				m, name = far.Mutex("it"), who
			}
			for ctx.Err() == nil {
				_, err := h.hold(ctx, m, name, 2*time.Millisecond)
				if err != nil && !errors.Is(err, context.DeadlineExceeded) {
					return err
				}
			}
			return nil
		})
		cancel()
		require.NoError(t, err)
		if roundTrip > lease {
			require.Zero(t, h.by(who), "grants that came after their lease")
		}
	}
	p.Delay(0)
	require.Positive(t, h.by("far, 0s"))
	require.Greater(t, h.by("near"), 50)
	checkSweep(t, h.list)
	freed(t, s, "it")
	redistest.Eventually(t, kit.Soon, "the far session to lock again", func() bool {
		ok, err := h.hold(kit.Background, far.Mutex("it"), "far again", 0)
		return ok && err == nil
	})
}
