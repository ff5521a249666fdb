package test

import (
	"testing"

	"github.com/relock-go/relock/internal/redistest"
)

func TestUnlockAsksFirst(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := session(t, s).Mutex("goods")
	defer hold(t, session(t, s).Mutex("other"))()
	if err := m.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, answer := range []string{"n\n", "\n", "yesterday\n", ctrlC} {
		x := at(t, command(s.Addr(), "unlock", "goods"))
		x.shows(x.shows(0, "goods: held"), "Open it? [y/N]")
		x.types(answer)
		if answer == ctrlC {
			x.ends(130)
		} else {
			x.ends(1)
			x.shows(0, "left as it is")
		}
		if m.Err() != nil {
			t.Fatalf("after %q: %v", answer, m.Err())
		}
	}
	x := at(t, command(s.Addr(), "unlock", "goods"))
	x.shows(0, "[y/N]")
	x.types("y\n")
	x.ends(0)
	x.shows(0, "goods: opened")
	<-m.Done()
	locked(t, s, "goods", false)
	locked(t, s, "other", true)
	_ = m.Unlock(t.Context())
}
