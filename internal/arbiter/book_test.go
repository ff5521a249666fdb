package arbiter_test

import (
	"fmt"
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
	"pgregory.net/rapid"
)

// newBook returns a book of holds whose lease is the time when they are over.
func newBook() *arbiter.Book[int] {
	return &arbiter.Book[int]{
		Now:  func() int64 { return 0 },
		Ends: func(l int) int64 { return int64(l) },
	}
}

// A Book says of every unlock what Table says of it that comes through the value by
// which alone the lock is used, whatever is lost before.
func TestBookCountsUnlocksAsTableDoes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		via := w.handle("a")
		book := newBook()
		owners := []*owner{nil, new(owner), new(owner), new(owner)}
		twins := make(map[*hold]*arbiter.Hold[int])
		var live *hold

		// unlock ends one lock of an owner in both, and reports whether there was one.
		unlock := func(o *owner) bool {
			h, outcome := w.Exit(via, o)
			twin, over, _ := book.Exit(o)
			if h == nil {
				if twin != nil {
					rt.Fatalf("the book knows a hold, the table does not")
				}
				return false
			}
			if twin != twins[h] {
				rt.Fatalf("the book has counted it for another hold")
			}
			switch outcome {
			case arbiter.Release:
				if !over || twin.State() != arbiter.Live {
					rt.Fatalf("the book: over %t, state %v; the table: release", over, twin.State())
				}
				twin.End(arbiter.Ended)
				w.Released("a", h.Lease)
				live = nil
			case arbiter.Kept:
				if over || twin.State() != arbiter.Live {
					rt.Fatalf("the book: over %t, state %v; the table: kept", over, twin.State())
				}
			case arbiter.WasLost:
				if twin.State() != arbiter.Lost {
					rt.Fatalf("the book: state %v; the table: lost", twin.State())
				}
			default:
				rt.Fatalf("outcome %v", outcome)
			}
			return true
		}
		steps := rapid.IntRange(1, 40).Draw(rt, "steps")
		for range steps {
			o := owners[rapid.IntRange(0, len(owners)-1).Draw(rt, "owner")]
			switch rapid.SampledFrom([]string{"lock", "lock", "lose", "unlock", "unlock"}).Draw(rt, "action") {
			case "lock":
				c := w.try(via, o)
				admits, _ := book.Admits(o)
				switch c.verdict {
				case arbiter.Ask:
					h := c.grant(0)
					twin := &arbiter.Hold[int]{Owner: o}
					if !admits || book.Again(o) {
						rt.Fatalf("the book admits it: %t; the table does", admits)
					}
					book.Add(twin)
					twins[h], live = twin, h
				case arbiter.Entered:
					if !book.Again(o) {
						rt.Fatal("the owner has it, and the book does not know")
					}
				case arbiter.UnlockFirst:
					if admits {
						rt.Fatal("the book admits what the table does not")
					}
				case arbiter.Busy:
					if live == nil && admits {
						rt.Fatal("the book admits what the table does not")
					}
				}
			case "lose":
				if live != nil {
					w.Lose("a", live.Lease)
					twins[live].End(arbiter.Lost)
					live = nil
				}
			case "unlock":
				unlock(o)
			}
			if latest := via.Latest(); latest != nil && book.Latest() != twins[latest] {
				rt.Fatal("another hold is the latest")
			}
		}
		// Every hold ends when every owner has unlocked what it has locked.
		for again := true; again; {
			again = false
			for _, o := range owners[1:] {
				again = unlock(o) || again
			}
			again = unlock(nil) || again
		}
		if live != nil {
			rt.Fatal(fmt.Sprint("a hold that nobody can end any more: ", live))
		}
	})
}

func TestBookKnowsWhenAnAnonymousCallMayProbeAgain(t *testing.T) {
	book := newBook()
	h := new(arbiter.Hold[int])
	book.Add(h)
	if ok, _ := book.Admits(nil); !ok {
		t.Fatal("a hold that is live keeps nobody out: the book does not decide that")
	}
	h.End(arbiter.Lost)
	if ok, _ := book.Admits(new(owner)); !ok {
		t.Fatal("an owner is kept out")
	}
	ok, changed := book.Admits(nil)
	if ok {
		t.Fatal("a late unlock could not be told from this call's")
	}
	select {
	case <-changed:
		t.Fatal("nothing has changed yet")
	default:
	}
	if got, over, _ := book.Exit(nil); got != h || !over {
		t.Fatalf("Exit = %v, %t", got, over)
	}
	<-changed
	if ok, _ := book.Admits(nil); !ok {
		t.Fatal("still kept out")
	}
}
