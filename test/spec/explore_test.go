package spec

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

// make spec explores all worlds, CI the small ones, and other tests the tiny ones.
var most = flag.String("spec.worlds", "tiny", "which worlds are explored: tiny, small or all")

var only = flag.String("spec.only", "", "explore only the world of this name")

type size int

const (
	tiny size = iota // less than a second
	small
	large
)

func explored(s size) bool {
	return int(s) <= slices.Index([]string{"tiny", "small", "all"}, *most)
}

// statesMost bounds what a world costs: 1 kB of memory for each state.
const statesMost = 6_000_000

func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// short are terms so short that few steps of time pass them.
var short = Terms{
	Memory: 2 * Second, QueueLives: 4 * Second, Polled: 4 * Second, Lull: Second,
	Turn: 100 * Millisecond, AfterUsed: 20 * Millisecond, AfterOther: Second,
}

// of returns a world with a call for each of some sessions. A lease is 4 steps of time, a grant
// timeout 3.
func of(f Faults, sessions ...int) *World {
	w := &World{
		Rules: &Rules{Terms: &short, Lease: 4 * Second, Term: 3 * Second},
		Now:   start, Lock: &Lock{}, Faults: f,
	}
	for _, s := range sessions {
		for len(w.Sessions) <= s {
			w.Sessions = append(w.Sessions, Session{Subscribed: true})
		}
		w.Calls = append(w.Calls, Call{Session: s, Left: 1})
	}
	return w
}

// kinds gives the calls their kinds.
func (w *World) kinds(kinds ...Kind) *World {
	for i, k := range kinds {
		w.Calls[i].Kind = k
	}
	return w
}

// permits makes all calls those of a semaphore with that limit.
func (w *World) permits(n int) *World {
	w.Permits = n
	for i := range w.Calls {
		w.Calls[i].Kind = Permit
	}
	return w
}

// again has the first call acquire twice.
func (w *World) again() *World {
	w.Calls[0].Left = 2
	return w
}

// twice has all calls acquire twice.
func (w *World) twice() *World {
	for i := range w.Calls {
		w.Calls[i].Left = 2
	}
	return w
}

// keeping has the first call keep the lock.
func (w *World) keeping() *World {
	w.Calls[0].Keeps = true
	return w
}

type world struct {
	name  string
	size  size
	bound int // what a call may wait at most while nobody validly holds the lock
	*World
}

func worlds() []world {
	return []world{
		{"two processes, twice", small, 0, of(Faults{}, 0, 1).twice()},
		{"three processes", small, 0, of(Faults{}, 0, 1, 2)},
		{"a freeze", small, 1, of(Faults{Freezes: 1}, 0, 1)},
		{"a freeze, one comes again", large, 3, of(Faults{Freezes: 1}, 0, 1).again()},
		{"a waiter crashes", small, 0, of(Faults{Waiters: 1}, 0, 1).again()},
		{"a crash", small, 3, of(Faults{Crashes: 1}, 0, 1).again()},
		{"a silent crash", small, 3, of(Faults{Silent: 1}, 0, 1).again()},
		{"a silent crash of two waiters", tiny, 3, of(Faults{Silent: 1}, 0, 1, 1).again().After(
			"a:00 acquires", "acquire of a:00 is executed", "the reply to acquire of a:00",
			"b:10 acquires", "acquire of b:10 is executed", "the reply to acquire of b:10",
			"b:20 acquires", "acquire of b:20 is executed", "the reply to acquire of b:20",
			"session b crashes",
		)},
		{"a session is cut off", tiny, 0, of(Faults{Cuts: 1}, 0, 1)},
		{"cut off, one comes again", large, 1, of(Faults{Cuts: 1}, 0, 1).again()},
		{"a lost message", tiny, 1, of(Faults{LostMessages: 1}, 0, 1)},
		{"a late or lost request", small, 1, of(Faults{LostReplies: 1}, 0, 1)},
		{"a script sent twice", small, 0, of(Faults{Twice: 1}, 0, 1).again()},
		{"a cancelled call", tiny, 1, of(Faults{Cancels: 1}, 0, 1)},
		{"a cancelled call, three processes", large, 1, of(Faults{Cancels: 1}, 0, 1, 2)},
		{"forced open", tiny, 0, of(Faults{Forces: 1}, 0, 1)},
		{"the clock goes ahead", tiny, 0, of(Faults{Ahead: 1}, 0, 1)},
		{"the clock goes back", tiny, 0, of(Faults{Back: 1}, 0, 1)},
		{"all data is lost", tiny, 1, of(Faults{Wipes: 1}, 0, 1)},
		{"Redisson takes it", small, 2, of(Faults{Redisson: 1}, 0, 1)},
		{"Redisson listens and never comes", tiny, 1, of(Faults{Listens: 1}, 0, 1)},
		{"the holder of three crashes silently, and then another", tiny, 3, of(Faults{Silent: 2}, 0, 1, 2).After(
			"a:00 acquires", "acquire of a:00 is executed", "the reply to acquire of a:00",
			"b:10 acquires", "acquire of b:10 is executed", "the reply to acquire of b:10",
			"c:20 acquires", "acquire of c:20 is executed", "the reply to acquire of c:20",
			"session a crashes",
		)},
		{"a writer and a reader", tiny, 0, of(Faults{}, 0, 1).kinds(Writer, Reader)},
		{"a writer and two readers", small, 0, of(Faults{}, 0, 1, 2).kinds(Writer, Reader, Reader)},
		{"two writers and a reader", small, 0, of(Faults{}, 0, 1, 2).kinds(Writer, Writer, Reader)},
		{"a writer and a reader, a freeze", small, 1, of(Faults{Freezes: 1}, 0, 1).kinds(Writer, Reader)},
		{"a writer and a reader, a cancelled call", tiny, 1, of(Faults{Cancels: 1}, 0, 1).kinds(Writer, Reader)},
		{"a writer and a reader, a lost message", tiny, 1, of(Faults{LostMessages: 1}, 0, 1).kinds(Writer, Reader)},
		{"a permit for two", tiny, 0, of(Faults{}, 0, 1).permits(1)},
		{"a permit for two, a freeze", large, 1, of(Faults{Freezes: 1}, 0, 1).permits(1)},
		{"two permits for two", tiny, 0, of(Faults{}, 0, 1).permits(2)},
		{"two permits for three", large, 0, of(Faults{}, 0, 1, 2).permits(2)},
		{"kept", small, 0, of(Faults{}, 0, 1).again().keeping()},
		{"kept, twice", large, 0, of(Faults{}, 0, 1).twice().keeping()},
	}
}

var bugs = []struct {
	bug      Bug
	property string
	world    string
	size     size
}{
	{GrantFromMessage, "overlap", "a freeze, one comes again", small},
	{LateGrantAccepted, "overlap", "a freeze, one comes again", small},
	{RenewalFromReply, "overlap", "a freeze", tiny},
	{ReleaseOfAnybodys, "overlap", "a script sent twice", tiny},
	{GrantTakenTwice, "at most once", "two processes, twice", tiny},
	{QueuesTwice, "stays behind", "a late or lost request", tiny},
	{CancelledStaysQueued, "stays behind", "a cancelled call", tiny},
	{CancelledKeepsGrant, "stays behind", "a cancelled call", tiny},
	{AbsentAreGranted, "gets in", "a waiter crashes", tiny},
	{LapsedCostEachEntry, "gets in", "a silent crash of two waiters", tiny},
	{PollGrantsTheLease, "gets in", "the holder of three crashes silently, and then another", tiny},
	{TurnWithoutEnd, "gets in", "Redisson listens and never comes", tiny},
	{SlotsShared, "overlap", "two permits for two", tiny},
	{RecallUnsaid, "given up", "kept", tiny},
	{RecallIgnored, "given up", "kept", tiny},
	{TokenOfTheClock, "tokens grow", "the clock goes back", tiny},
	{TokenWithoutMemory, "tokens grow", "all data is lost", tiny},
}

// TestWorlds visits every state of small worlds: none breaks a property.
func TestWorlds(t *testing.T) {
	states := 0
	for _, w := range worlds() {
		if *only != "" && w.name != *only || *only == "" && !explored(w.size) {
			continue
		}
		w.Bound = w.bound
		res := Explore(w.World, statesMost)
		states += res.States
		fmt.Printf("%-56s %9d states %8v, longest wait %d\n", w.name, res.States, res.Took.Round(time.Millisecond), res.Waits)
		switch {
		case res.Broken != "":
			t.Errorf("%s: %s\n%s", w.name, res.Broken, strings.Join(res.Steps, "\n"))
		case !res.Complete:
			t.Errorf("%s has more than %d states", w.name, statesMost)
		case res.Waits != w.bound:
			t.Errorf("%s: nobody waits longer than %d, not %d", w.name, res.Waits, w.bound)
		}
	}
	fmt.Printf("%-56s %9d states\n", "all", states)
}

// TestBugsAreFound shows that the properties fail without the rules that they are there for.
func TestBugsAreFound(t *testing.T) {
	for _, b := range bugs {
		if !explored(b.size) {
			continue
		}
		all := worlds()
		w := all[slices.IndexFunc(all, func(w world) bool { return w.name == b.world })]
		w.Bound, w.Bug = w.bound, b.bug
		res := Explore(w.World, statesMost)
		if !strings.Contains(res.Broken, b.property) {
			t.Errorf("%s: %q is not found broken: %+v", b.bug, b.property, res)
			continue
		}
		fmt.Printf("%s:\n    after %d steps, the shortest of %d states, in %v: %s\n",
			b.bug, len(res.Steps), res.States, res.Took.Round(time.Millisecond), res.Broken)
	}
}
