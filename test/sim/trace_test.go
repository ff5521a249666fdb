package sim_test

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/memredis"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/test/spec"
)

// Each script says what it has done, and the specification must accept it.

// traceScripts has all scripts say what they do.
func traceScripts() {
	server := must(memredis.New())
	client := must(server.Process().Client())
	s := must(relock.NewSession(kit.Background, client))
	peek.ChangeScripts(s, spec.Traced)
	_ = s.Close(kit.Background)
	client.Close()
	server.Close()
}

// A recorder has the trace of a server.
type recorder struct {
	mu     sync.Mutex
	events []spec.Event
	holds  map[*call]spec.Event // those that are certain, as they will end
}

func record(server *memredis.Server) *recorder {
	r := &recorder{holds: make(map[*call]spec.Event)}
	server.OnCommand(func(verb string, args []string) string {
		if verb != "RPUSH" || !strings.HasPrefix(args[0], spec.TraceKey) {
			return ""
		}
		e := spec.Parse(args[1])
		r.mu.Lock()
		defer r.mu.Unlock()
		for c, end := range r.holds {
			if kit.IsClosed(c.done) { // nobody has looked since
				r.events = append(r.events, end)
				delete(r.holds, c)
			}
		}
		r.events = append(r.events, e)
		return "ERR recorded"
	})
	return r
}

// begins notes a hold, if the specification knows its kind.
func (r *recorder) begins(c *call) {
	if len(c.parts) > 1 || c.parts[0].kind == redlock || c.hold() == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e := spec.Event{
		Name: spec.Begins, At: spec.Time(time.Now().UnixMicro()), Keys: []string{c.parts[0].name}, Args: []string{peek.HoldID(c.hold())},
	}
	if kit.IsClosed(c.done) {
		return
	}
	r.events = append(r.events, e)
	e.Name = spec.Ends
	r.holds[c] = e
}

// ends notes that a hold is not certain any more.
func (r *recorder) ends(c *call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := r.holds[c]; ok {
		r.events = append(r.events, e)
		delete(r.holds, c)
	}
}

// unspecified are faults that change keys behind the scripts.
var unspecified = []faultKind{clockBack, restartEmpty, evict, corrupt, damage}

// unsure are faults after which holds may overlap, or clocks differ.
var unsure = []faultKind{force, clockAhead, clockForward}

// checkTraces has the specification accept what the servers have done.
func (w *world) checkTraces() {
	had := func(kinds []faultKind) bool {
		return slices.ContainsFunc(w.troubles, func(t *trouble) bool { return slices.Contains(kinds, t.kind) })
	}
	if had(unspecified) {
		return
	}
	for i, r := range w.recorders {
		// Its PTTL counts whole milliseconds, which readers lose one after the other.
		c := spec.Checker{Lossy: had(unsure), Extra: 10 * spec.Millisecond}
		if err := c.Check(r.events); err != nil {
			w.fail("the specification accepts what happens", "server %d: %v", i, err)
		}
		w.accepted += c.Steps
		w.aside += c.Aside
	}
}
