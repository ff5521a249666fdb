package test

import (
	"encoding/json"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
)

func TestUnlockAsksFirst(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := session(t, s).Mutex("goods")
	defer hold(t, session(t, s).Mutex("other"))()
	ok(t, m.Lock(t.Context()))
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

// The answer is for the holder that the question showed, however late it comes.
func TestUnlockOpensOnlyWhatTheQuestionShowed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	shown, other := session(t, s), session(t, s)
	for _, kind := range []func(s *relock.Session) relock.Locker{
		func(s *relock.Session) relock.Locker { return s.Mutex("goods") },
		func(s *relock.Session) relock.Locker { return s.RWMutex("goods") },
		func(s *relock.Session) relock.Locker { return s.RWMutex("goods").RLocker() },
	} {
		for _, by := range []*relock.Session{shown, other} { // the same process may hold it again
			release := hold(t, kind(shown))
			x := at(t, command(s.Addr(), "unlock", "goods"))
			x.shows(0, "[y/N]")
			release()
			next := kind(by)
			release = hold(t, next)
			x.types("y\n")
			x.ends(1)
			x.shows(0, "goods has changed hands and was left as it is")
			if next.Err() != nil {
				t.Fatalf("%T: %v", next, next.Err())
			}
			release()
		}
	}
	release := hold(t, shown.Mutex("goods"))
	x := at(t, command(s.Addr(), "unlock", "goods"))
	x.shows(0, "[y/N]")
	release()
	x.types("y\n")
	x.ends(1)
	x.shows(0, "goods is not locked")
}

func TestUnlockSaysWhatItDidInJSON(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := session(t, s).Mutex("goods")
	_ = hold(t, m)
	r := run(t, s, "unlock", "--yes", "--json", "goods")
	r.ends(0)
	var did struct {
		Name     string
		Unlocked bool
	}
	if err := json.Unmarshal([]byte(r.out.String()), &did); err != nil || did.Name != "goods" || !did.Unlocked {
		t.Errorf("%s: %v", &r.out, err)
	}
	<-m.Done()
	_ = m.Unlock(t.Context())
}
