package engine

import (
	"sync/atomic"

	"github.com/relock-go/relock/internal/timing"
)

// tasks are goroutines that Close waits for. Only one goroutine may call wait.
type tasks struct {
	n    atomic.Int64
	none chan struct{} // signals that n may be 0
}

func newTasks() tasks { return tasks{none: make(chan struct{}, 1)} }

// Go runs f in a goroutine.
func (t *tasks) Go(f func()) {
	t.n.Add(1)
	go func() {
		defer func() {
			if t.n.Add(-1) == 0 {
				timing.Signal(t.none)
			}
		}()
		f()
	}()
}

// wait blocks until no goroutine is left, or enough is closed.
func (t *tasks) wait(enough <-chan struct{}) {
	for t.n.Load() > 0 {
		select {
		case <-t.none:
		case <-enough:
			return
		}
	}
}
