package transport

import (
	"context"
	"sync"

	"github.com/redis/rueidis"
)

// A Batch sends scripts of several goroutines to one node in one pipeline: when each of them has
// either given its script or said that it has none.
type Batch struct {
	conn *Conn

	mu      sync.Mutex // protects the following
	open    int        // how many may still give one
	calls   []Call
	ctx     context.Context // of the first
	results []rueidis.RedisResult
	done    chan struct{} // closed when there are results
}

// NewBatch returns a batch for n goroutines. Each must call Eval or Skip, once.
func NewBatch(c *Conn, n int) *Batch { return &Batch{conn: c, open: n, done: make(chan struct{})} }

// Eval runs a script. It blocks until all others have called Eval or Skip, and Redis has answered,
// or the ctx of the first has ended.
func (b *Batch) Eval(ctx context.Context, s *Script, keys, args []string) rueidis.RedisResult {
	b.mu.Lock()
	i := len(b.calls)
	b.calls = append(b.calls, Call{s, keys, args})
	if i == 0 {
		b.ctx = ctx
	}
	b.left()
	<-b.done
	return b.results[i]
}

// Skip says that there is no script.
func (b *Batch) Skip() {
	b.mu.Lock()
	b.left()
}

// left notes that one goroutine has nothing more to give, and unlocks mu. The last one sends.
func (b *Batch) left() {
	b.open--
	send := b.open == 0
	b.mu.Unlock()
	if send && len(b.calls) > 0 {
		b.results = b.conn.EvalAll(b.ctx, b.calls)
		close(b.done)
	}
}
