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
	ctx  context.Context // of the pipeline; ends when nobody waits for it any more
	end  context.CancelFunc

	mu      sync.Mutex // protects the following
	open    int        // how many may still give one
	waiting int        // how many wait for the answer
	calls   []Call

	results []rueidis.RedisResult // set before done is closed
	done    chan struct{}
}

// NewBatch returns a batch for n goroutines. Each must call Eval or Skip, once.
func NewBatch(c *Conn, n int) *Batch {
	b := &Batch{conn: c, open: n, done: make(chan struct{})}
	b.ctx, b.end = context.WithCancel(context.Background())
	return b
}

// Eval runs a script. It blocks until all others have called Eval or Skip, and Redis has answered,
// or ctx has ended.
func (b *Batch) Eval(ctx context.Context, s *Script, keys, args []string) rueidis.RedisResult {
	b.mu.Lock()
	i := len(b.calls)
	b.calls = append(b.calls, Call{s, keys, args})
	b.waiting++
	b.left()
	select {
	case <-b.done:
		return b.results[i]
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting--; b.waiting == 0 && b.open == 0 {
		b.end()
	}
	return rueidis.NewErrorResult(ctx.Err())
}

// Skip says that there is no script.
func (b *Batch) Skip() {
	b.mu.Lock()
	b.left()
}

// left notes that one goroutine has nothing more to give, and unlocks mu. The last one sends.
func (b *Batch) left() {
	b.open--
	send, waited := b.open == 0 && len(b.calls) > 0, b.waiting > 0
	b.mu.Unlock()
	switch {
	case send && waited:
		b.conn.wg.Go(func() { // ends with the pipeline, at the latest when nobody waits for it any more
			defer b.end()
			b.results = b.conn.EvalAll(b.ctx, b.calls)
			close(b.done)
		})
	case send:
		b.end()
	}
}
