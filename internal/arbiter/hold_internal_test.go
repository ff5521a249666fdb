package arbiter

import "testing"

// A handle remembers only the holds whose unlock is outstanding, however many were
// taken through it and whoever unlocked them.
func TestHandleForgetsEndedHolds(t *testing.T) {
	table := NewTable(Rules[int]{
		Now:     func() int64 { return 0 },
		Certain: func(int, int64) bool { return true },
		Pass:    func(int, int64, int64) (int64, bool) { return 0, false },
	})
	v := table.Handle("a")
	o := new(Owner)
	for i := range 1000 {
		w := table.Waiter(&v, o, true)
		table.Enter(w, Write, true)
		table.Grant(w, i, int64(i))
		table.Free(w)
		for range 3 {
			table.Reenter(&v, o)
		}
		if len(v.open) > 3 { // ended ones are dropped when it doubles
			t.Fatalf("the handle remembers %d holds after %d", len(v.open), i+1)
		}
		for range 4 {
			table.Exit(&v, o, Write)
		}
		table.Released("a", i)
	}
	if table.Len() != 0 || len(table.shard("a").spare) != 1 {
		t.Fatalf("the table knows %d names, and keeps %d spare entries", table.Len(), len(table.shard("a").spare))
	}
	if o.hasQueued() {
		t.Fatal("the owner counts queued calls that there are not")
	}
}

// A queued call of an owner is counted until it leaves the queue, whichever way.
func TestOwnerCountsItsQueuedCalls(t *testing.T) {
	table := NewTable(Rules[int]{
		Now:     func() int64 { return 0 },
		Certain: func(int, int64) bool { return true },
		Pass:    func(int, int64, int64) (int64, bool) { return 0, false },
	})
	v := table.Handle("a")
	o := new(Owner)
	asker := table.Waiter(&v, nil, true)
	table.Enter(asker, Write, true)
	var calls []*Waiter[int]
	for range 4 {
		w := table.Waiter(&v, o, true)
		table.Enter(w, Write, true)
		calls = append(calls, w)
	}
	table.Quit(calls[3]) // cancelled
	if o.queued != 3 {
		t.Fatalf("%d calls counted, want 3", o.queued)
	}
	table.Quit(asker) // the first asks
	if o.queued != 2 {
		t.Fatalf("%d calls counted, want 2", o.queued)
	}
	table.Grant(calls[0], 1, 1) // and the others come in with it
	if o.queued != 0 {
		t.Fatalf("%d calls counted, want 0", o.queued)
	}
}
