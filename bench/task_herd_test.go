package main

import (
	"context"
	"testing"
	"time"
)

// fakeLib has locks that nobody else wants, or that nobody ever gets.
type fakeLib struct{ never bool }

func (l fakeLib) mutex(string) mutex { return l }
func (l fakeLib) close()             {}

func (l fakeLib) Lock(ctx context.Context) error {
	if l.never {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (l fakeLib) Unlock(context.Context) error { return nil }

func herdOf(t *testing.T, lib library) (outcome, *shared) {
	t.Helper()
	mem, err := newShared(t.TempDir())
	noError(t, err)
	t.Cleanup(func() { _ = mem.close() })
	w := &worker{lib: lib, shared: mem}
	return w.herd(&task{
		Start: monotonic(), WarmUp: 20 * time.Millisecond, Span: 20 * time.Millisecond,
		Section: time.Millisecond, Stuck: 50 * time.Millisecond,
	}), mem
}

func TestHerdCountsWithinItsSpan(t *testing.T) {
	out, mem := herdOf(t, fakeLib{})
	if out.Acquired != mem.cell(counted).Load() || out.Stuck+out.Errors > 0 {
		t.Errorf("%d acquisitions, %d sections: %+v", out.Acquired, mem.cell(counted).Load(), out)
	}
	// It locks for 20 ms, is measured for 20 ms, and goes on for 100 ms.
	if out.Counted > 20 || out.Acquired == 0 {
		t.Errorf("%d of %d acquisitions of 1 ms counted within 20 ms", out.Counted, out.Acquired)
	}
}

func TestHerdGivesUpAWaiterThatIsStuck(t *testing.T) {
	out, _ := herdOf(t, fakeLib{never: true})
	if out.Stuck != 1 || out.Acquired > 0 || out.Errors > 0 {
		t.Errorf("%+v, want one that is stuck", out)
	}
	if out.Longest < 120*time.Millisecond {
		t.Errorf("it waited for %v only", out.Longest)
	}
}
