package main

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// oneLock is a library with one lock, in memory, that breaks as it is told.
type oneLock struct {
	token chan struct{}

	mu    sync.Mutex
	loses int           // the wake-up of so many waiters
	deaf  chan struct{} // a waiter that has lost its wake-up does not mind its context; it waits for this
	fails error         // of every Unlock
}

func newOneLock() *oneLock {
	l := &oneLock{token: make(chan struct{}, 1)}
	l.token <- struct{}{}
	return l
}

func (l *oneLock) mutex(string) mutex { return l }
func (l *oneLock) close()             {}

func (l *oneLock) Lock(ctx context.Context) error {
	l.mu.Lock()
	lost := l.loses > 0
	if lost {
		l.loses--
	}
	l.mu.Unlock()
	switch {
	case lost && l.deaf != nil:
		<-l.deaf
		return errors.New("woken at last")
	case lost:
		<-ctx.Done()
		return ctx.Err()
	}
	select {
	case <-l.token:
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
	noError(t, err)
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
		"lost wake-ups":       {func(l *oneLock) { l.loses = 2 }, 2, true},
		"nobody ever unlocks": {func(l *oneLock) { <-l.token }, 4, false},
	} {
		l := newOneLock()
		c.lock(l)
		out, mem := raceOn(t, l)
		if int64(out.Stuck) != c.stuck || out.Errors != 0 || out.Hung != 0 || out.Violations != 0 {
			t.Errorf("%s: %+v", name, out)
		}
		if c.works != (out.Counted > 0) || out.Acquired < out.Counted || out.Acquired != mem.cell(counted).Load() {
			t.Errorf("%s: counted %d, acquired %d, by the shared counter %d", name, out.Counted, out.Acquired, mem.cell(counted).Load())
		}
	}
	l := newOneLock()
	l.fails = errors.New("not yours")
	if out, _ := raceOn(t, l); out.Errors != out.Acquired || out.FirstError != "not yours" {
		t.Errorf("every Unlock fails: %+v", out)
	}
}

func TestWaiterThatIgnoresItsContextIsGivenUp(t *testing.T) {
	t.Parallel()
	l := newOneLock()
	l.loses, l.deaf = 1, make(chan struct{})
	r := newRunner(t.Context())
	go func() {
		defer close(r.ended)
		_ = l.Lock(r.ctx) // it says that it was woken at last
	}()
	out := watch([]*runner{r}, time.Now(), 50*time.Millisecond, 50*time.Millisecond)
	if out.Stuck != 1 || out.Hung != 1 {
		t.Errorf("a waiter that hangs: %+v", out)
	}
	close(l.deaf)
	<-r.ended
}

func TestViolationsAreSeen(t *testing.T) {
	mem, err := newShared(t.TempDir())
	noError(t, err)
	defer mem.close()

	us, _, _ := somePeers()
	b := &bench{shared: mem, report: newReport([]*peer{us})}
	c := mem.cell(counted)
	seen := c.Load() // by one who has the lock, while another one counts
	mem.count()
	c.Store(seen + 1)
	b.check("section", us, &outcome{Acquired: 2})
	if got := b.report.fault("section", us).violations; got != 1 {
		t.Errorf("%d violations when a count got lost, want 1", got)
	}

	const read, write = false, true
	first, second := mem.enter(read), mem.enter(read)
	if !first || !second || mem.enter(write) {
		t.Error("two readers may enter, and a writer beside them may not")
	}
	mem.leave(write)
	mem.leave(read)
	mem.leave(read)
	if !mem.enter(write) || mem.enter(read) || mem.enter(write) {
		t.Error("a writer may enter, and nobody beside it")
	}
}

func TestSharedMemoryIsShared(t *testing.T) {
	a, err := newShared(t.TempDir())
	noError(t, err)
	defer a.close()
	b, err := openShared(a.file)
	noError(t, err)
	defer b.close()
	for i := range cells {
		a.cell(i).Store(int64(i) + 7)
	}
	for i := range cells {
		if got := b.cell(i).Load(); got != int64(i)+7 {
			t.Errorf("cell %d: %d", i, got)
		}
	}
	a.reset()
	if b.cell(inside).Load() != 0 {
		t.Error("reset is not seen")
	}
}
