package spec

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func redlock(clients, rounds int, change func(*Redlock)) *Redlock {
	w := NewRedlock(clients, rounds)
	if change != nil {
		change(w)
	}
	return w
}

// TestRedlocks visits every state of small worlds of a Redlock, and finds its deliberate bugs.
func TestRedlocks(t *testing.T) {
	freezes := func(w *Redlock) { w.Freezes = 1 }
	for _, w := range []struct {
		name  string
		size  size
		world *Redlock
		bug   Bug
		finds string
	}{
		{"two clients, one freezes", tiny, redlock(2, 1, freezes), "", ""},
		{"two clients, twice", small, redlock(2, 2, nil), "", ""},
		{"two clients, twice, a server falls silent", large, redlock(2, 2, func(w *Redlock) { w.Downs = 1 }), "", ""},
		{"two clients, twice, one freezes", large, redlock(2, 2, freezes), "", ""},
		{"three clients, one freezes", large, redlock(3, 1, freezes), "", ""},
		{"", tiny, redlock(2, 2, nil), RedlockTokenNotWritten, "tokens grow"},
		{"", tiny, redlock(2, 2, nil), RedlockTokenOnOne, "tokens grow"},
		{"", large, redlock(2, 2, freezes), RedlockTokenLate, "tokens grow"},
		// Tokens are not promised to grow if a server loses its data.
		{"a server loses its data", small, redlock(2, 2, func(w *Redlock) { w.Wipes = 1 }), "", "tokens grow"},
	} {
		if !explored(w.size) {
			continue
		}
		w.world.Bug = w.bug
		name := fmt.Sprint("Redlock: ", w.name, string(w.bug))
		res := Explore(w.world, statesMost)
		fmt.Printf("%-64s %9d states %8v %s\n", name, res.States, res.Took.Round(time.Millisecond), res.Broken)
		switch {
		case res.Broken != w.finds:
			t.Errorf("%s: %q is broken, not %q\n%s", name, res.Broken, w.finds, strings.Join(res.Steps, "\n"))
		case w.finds == "" && !res.Complete:
			t.Errorf("%s has more than %d states", name, statesMost)
		}
	}
}
