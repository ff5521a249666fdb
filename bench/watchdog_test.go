package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// oneLock is a library with one lock, in memory, that breaks as it is told.
type oneLock struct {
	token chan struct{}
	loses atomic.Int64 // the wake-up of so many waiters
	fails error        // of every Unlock
}

func newOneLock() *oneLock {
	l := &oneLock{token: make(chan struct{}, 1)}
	l.token <- struct{}{}
	return l
}

func (l *oneLock) mutex(string) mutex { return l }
func (l *oneLock) close()             {}

func (l *oneLock) Lock(ctx context.Context) error {
	token := l.token
	if l.loses.Add(-1) >= 0 {
		token = nil
	}
	select {
	case <-token:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *oneLock) Unlock(context.Context) error {
	l.token <- struct{}{}
	return l.fails
}

// raceOn lets four goroutines race for a lock.
func raceOn(t *testing.T, lib library) (outcome, *shared) {
	t.Helper()
	mem, err := newShared(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = mem.close() })
	w := &worker{lib: lib, shared: mem}
	return w.race(&task{Goroutines: 4, Span: 50 * time.Millisecond, Stuck: time.Second}), mem
}

func TestFaultsAreCounted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lock  func(l *oneLock)
		stuck int64
		works bool // for those that are not stuck
	}{
		"none":                {func(*oneLock) {}, 0, true},
		"lost wake-ups":       {func(l *oneLock) { l.loses.Store(2) }, 2, true},
		"nobody ever unlocks": {func(l *oneLock) { <-l.token }, 4, false},
	} {
		l := newOneLock()
		c.lock(l)
		out, mem := raceOn(t, l)
		assert.EqualValues(t, c.stuck, out.Stuck, name)
		assert.Zero(t, out.Errors+out.Hung+out.Violations, "%s: %+v", name, out)
		assert.Equal(t, c.works, out.Counted > 0, name)
		assert.GreaterOrEqual(t, out.Acquired, out.Counted, name)
		assert.Equal(t, mem.cell(counted).Load(), out.Acquired, name)
	}
	l := newOneLock()
	l.fails = errors.New("not yours")
	out, _ := raceOn(t, l)
	assert.Equal(t, out.Acquired, out.Errors, "every Unlock fails")
	assert.Equal(t, "not yours", out.FirstError)
}

func TestViolationsAreSeen(t *testing.T) {
	mem, err := newShared(t.TempDir())
	require.NoError(t, err)
	defer mem.close()

	us, _, _ := somePeers()
	b := &bench{shared: mem, report: newReport([]*peer{us})}
	c := mem.cell(counted)
	seen := c.Load() // by one who has the lock, while another one counts
	mem.count()
	c.Store(seen + 1)
	b.check("section", us, &outcome{Acquired: 2})
	assert.EqualValues(t, 1, b.report.fault("section", us).violations, "a count got lost")

	const read, write = false, true
	first, second := mem.enter(read), mem.enter(read)
	assert.True(t, first && second && !mem.enter(write), "two readers may enter, and a writer beside them may not")
	mem.leave(write)
	mem.leave(read)
	mem.leave(read)
	assert.True(t, mem.enter(write) && !mem.enter(read) && !mem.enter(write), "a writer may enter, and nobody beside it")
}
