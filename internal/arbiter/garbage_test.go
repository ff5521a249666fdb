package arbiter_test

import (
	"runtime"
	"testing"
	"weak"

	"github.com/relock-go/relock/internal/arbiter"
)

// Nobody unlocks a lost hold: when its handle is garbage, and its owner if it has one, so is all
// that is left of it.
func TestALostHoldIsGarbageWithItsHandleAndItsOwner(t *testing.T) {
	w, open, rw := newWorld(t), newOpenWorld(t), newRWWorld(t)
	exclusive := func(w *world) func(*owner) (*lease, *rwLease) {
		return func(o *owner) (*lease, *rwLease) {
			v := w.handle("a")
			h := w.take(v, o, 0)
			w.lose(v)
			return h.Lease, nil
		}
	}
	for name, lose := range map[string]func(*owner) (*lease, *rwLease){
		"table":      exclusive(w),
		"open table": exclusive(open),
		"writer": func(o *owner) (*lease, *rwLease) {
			h := rw.lock(rw.handle(), o).must(arbiter.Ask).writes(0)
			rw.Lose("a", h.Lease)
			return nil, h.Lease
		},
		"reader": func(o *owner) (*lease, *rwLease) {
			v := rw.handle()
			h := rw.rlock(v, o).must(arbiter.Ask).reads(rwNever)
			rw.rlock(v, o)
			rw.Lose("a", h.Lease)
			return nil, h.Lease
		},
		"reader with a lease of its own": func(o *owner) (*lease, *rwLease) {
			v := rw.handle()
			h := rw.readsUntil(v, o, 10)
			rw.readsUntil(v, nil, 20)
			for _, l := range rw.Leases("a") {
				rw.Lose("a", l)
			}
			return nil, h.Lease
		},
		"an unlock that may have been another's": func(o *owner) (*lease, *rwLease) {
			v := w.handle("a")
			h := w.take(v, o, 0)
			w.lose(v)
			if o != nil {
				w.take(v, nil, 0)
				w.exit(v, nil, arbiter.WasLost) // leaves a debt
				w.lose(v)
			}
			return h.Lease, nil
		},
	} {
		for _, owned := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				var o *owner
				if owned {
					o = new(owner)
				}
				l, r := lose(o)
				exclusive, shared := weak.Make(l), weak.Make(r)
				l, r, o = nil, nil, nil
				for range 100 {
					if runtime.GC(); exclusive.Value() == nil && shared.Value() == nil {
						return
					}
				}
				t.Fatal("something refers to its lease")
			})
		}
	}
	runtime.KeepAlive(w)
	runtime.KeepAlive(open)
	runtime.KeepAlive(rw)
}
