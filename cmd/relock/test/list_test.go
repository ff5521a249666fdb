package test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
)

// listed is what --json prints of a lock.
type listed struct {
	Name    string
	Mode    string
	Kind    string
	Holders []struct {
		ID, Session string
		Count       int
	}
	TTL         int64  `json:"ttl_ms"`
	Held        *int64 `json:"held_ms"`
	HeldAtLeast bool   `json:"held_at_least"`
	Waiters     int
}

func parsed(t testing.TB, r *running) (all []listed) {
	t.Helper()
	ok(t, json.Unmarshal([]byte(r.out.String()), &all))
	return all
}

// addOtherData stores what is no lock.
func addOtherData(t testing.TB, s *redistest.Server, hold string) {
	t.Helper()
	big := []string{"HSET", "application:big"}
	for i := range 5000 {
		big = append(big, fmt.Sprint(i), "x")
	}
	for _, cmd := range [][]string{
		big, {"HSET", "application:user", "mode", "dark", "name", "x"}, {"SET", "goods:text", "x"},
		{"ZADD", "goods:zset", "1", hold},
	} {
		admin(t, s, cmd...)
	}
}

func TestListShowsLocksAndNothingElse(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	began := time.Now()
	locker, other := session(t, s), session(t, s)
	defer hold(t, locker.Mutex("goods:1"))()
	defer hold(t, locker.Mutex("strange\n\x1b[31mname"))()
	defer hold(t, locker.FairMutex("goods:2"))()
	defer hold(t, locker.RWMutex("goods:3"))()
	defer hold(t, locker.RWMutex("goods:4").RLocker())()
	defer hold(t, other.RWMutex("goods:4").RLocker())()
	defer hold(t, other.Mutex("other"))()
	addOtherData(t, s, locker.ID()+":1")
	waiter := run(t, s, "run", "--fair", "goods:2", "--", "true")
	redistest.Eventually(t, soon, "a waiter", func() bool { return admin(t, s, "ZCARD", "relock_queue:{goods:2}") == int64(1) })

	r := run(t, s, "list", "--json", "goods:*")
	r.ends(0)
	all := parsed(t, r)
	var got []string
	for _, l := range all {
		got = append(got, fmt.Sprintf("%s %s %s %d %d", l.Name, l.Mode, l.Kind, len(l.Holders), l.Waiters))
		failIf(t, l.TTL <= 0 || l.TTL > 30_000, "%s: time to live %d ms", l.Name, l.TTL)
		longest := time.Since(began).Milliseconds() + 1000
		if l.Mode == "exclusive" && (l.Held == nil || *l.Held > longest || l.HeldAtLeast) {
			t.Errorf("%s: held for %v of at most %d ms", l.Name, l.Held, longest)
		}
	}
	want := []string{
		"goods:1 exclusive mutex 1 0", "goods:2 exclusive fair 1 1", "goods:3 exclusive write 1 0", "goods:4 shared read 2 0",
	}
	failIf(t, !slices.Equal(got, want), "list: %q, want %q", got, want)
	if h := all[0].Holders[0]; h.Session != locker.ID() || !strings.HasPrefix(h.ID, locker.ID()+":") || h.Count != 1 {
		t.Errorf("holder %+v", h)
	}

	r = run(t, s, "list")
	r.ends(0)
	for _, text := range []string{"goods:4 ", "and 1 more", `"strange\n\x1b[31mname"`, "\nother  ", "NAME"} {
		failIf(t, !strings.Contains(r.out.String(), text), "no %q in\n%s", text, &r.out)
	}
	if lines := strings.Count(r.out.String(), "\n"); lines != 7 {
		t.Errorf("%d lines, want 7:\n%s", lines, &r.out)
	}
	waiter.signal(passedOn["TERM"])
	waiter.ends(143)
}

// A lock that was acquired long ago, as a token that is gone tells.
func TestInspectSaysForHowLongAtLeast(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	defer hold(t, session(t, s).Mutex("goods"))()
	admin(t, s, "DEL", "relock_fence:{goods}")
	r := run(t, s, "inspect", "goods", "free")
	r.ends(0)
	if text := r.out.String(); !strings.Contains(text, "goods: held (mutex), for >1m00s") || !strings.Contains(text, "free: not locked") {
		t.Error(text)
	}
	r = run(t, s, "inspect", "--json", "goods", "free")
	r.ends(0)
	all := parsed(t, r)
	if len(all) != 2 || !all[0].HeldAtLeast || *all[0].Held != 60_000 || all[1].Mode != "unlocked" || all[1].Holders == nil {
		t.Errorf("%+v", all)
	}
}

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
