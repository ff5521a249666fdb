package sim_test

import (
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/relock-go/relock/internal/memredis"
)

// A ledger looks at the locks and queues of a server before each script, and so sees what the one
// before has done.
type ledger struct {
	w      *world
	server *memredis.Server

	looking sync.Mutex // protects following
	last    map[string]entry
	seen    map[string]bool // hold ids that have had a place or a lock

	mu      sync.Mutex      // protects following; the server may hold its own when this is taken
	granted map[string]bool // hold ids that a message has granted a lock
}

// An entry is what a server has of a lock.
type entry struct {
	mode  string // of a read-write lock
	holds []string
	queue map[string]int // places from 0 on
}

func (w *world) keepLedger(server *memredis.Server) {
	l := &ledger{w: w, server: server, last: map[string]entry{}, seen: map[string]bool{}, granted: map[string]bool{}}
	server.OnScript(l.look, l.published)
}

// look compares each lock with what it was.
func (l *ledger) look() {
	l.looking.Lock()
	defer l.looking.Unlock()
	for _, name := range l.w.plan.names {
		old, now := l.last[name], l.read(name)
		for again := l.read(name); !reflect.DeepEqual(again, now); again = l.read(name) {
			now = again // a script of another client ran meanwhile
		}
		l.last[name] = now
		l.checkHolds(name, now)
		for id := range now.queue {
			if _, queued := old.queue[id]; !queued && l.seen[id] {
				l.w.fail("a hold id is queued once", "%s for %s", id, name)
			}
			l.seen[id] = true
		}
		for _, id := range now.holds {
			l.seen[id] = true
			if l.w.isCalm(name) && !l.w.wasPassed(name) && !slices.Contains(old.holds, id) {
				l.checkTurn(name, id, old, now)
			}
		}
	}
}

func (l *ledger) read(name string) (e entry) {
	e.holds, _ = l.server.Mini.HKeys(name)
	if name == "rw" {
		e.mode = l.server.Mini.HGet(name, "mode")
		e.holds = slices.DeleteFunc(e.holds, func(id string) bool { return id == "mode" })
	}
	e.queue = make(map[string]int)
	waiting, _ := l.server.Mini.ZMembers(queueOf(name))
	for i, place := range waiting {
		if score, _ := l.server.Mini.ZScore(queueOf(name), place); score != 0 { // else it was granted the lock
			id, _, _ := strings.Cut(place, " ")
			e.queue[id] = i
		}
	}
	return e
}

func queueOf(name string) string {
	return map[bool]string{false: "relock_queue:{", true: "relock_rwqueue:{"}[name == "rw"] + name + "}"
}

func writes(id string) bool { return strings.HasSuffix(id, ":write") }

func sessionOf(id string) string {
	session, _, _ := strings.Cut(id, ":")
	return session
}

// checkHolds checks that those who have a lock exclude nobody who has it, and do not queue.
func (l *ledger) checkHolds(name string, now entry) {
	for i, id := range now.holds {
		if _, queued := now.queue[id]; queued {
			l.w.fail("who has a lock does not queue", "%s for %s", id, name)
		}
		for _, other := range now.holds[:i] {
			shared := name == "rw" && !writes(id) && !writes(other) ||
				name == "rw" && writes(id) != writes(other) && sessionOf(id) == sessionOf(other)
			if !shared {
				l.w.fail("Redis gives a lock once", "%s to %s and %s", name, id, other)
			}
		}
		if name == "rw" && writes(id) != (now.mode == "write") && len(now.holds) == 1 {
			l.w.fail("a lock has the mode of its holder", "%s: %s", now.mode, id)
		}
	}
}

// checkTurn checks that nobody who still queues was there before a new holder, while nobody is absent.
// Readers may come before writers that queue unless others read already.
func (l *ledger) checkTurn(name, id string, old, now entry) {
	place, queued := old.queue[id]
	for other, at := range old.queue {
		if _, waits := now.queue[other]; !waits {
			continue
		}
		passed := !queued || at < place
		if name == "rw" {
			passed = passed && writes(other) && (writes(id) || old.mode == "read")
		}
		if passed {
			l.w.fail("the first of the queue has the lock", "%s: %s before %s", name, id, other)
		}
	}
}

// published notes a grant.
func (l *ledger) published(message string) {
	what, rest, _ := strings.Cut(message, " ")
	if what != "granted" {
		return
	}
	id, _, _ := strings.Cut(rest, " ")
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.granted[id] {
		l.w.fail("a hold id is granted once", "%s", id)
	}
	l.granted[id] = true
}

// isCalm reports whether no fault has happened yet that a lock may notice.
func (w *world) isCalm(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !slices.ContainsFunc(w.troubles, func(t *trouble) bool {
		return t.kind != forge && t.kind != corrupt && (!slices.Contains(ofName, t.kind) || t.text == name)
	})
}

// wasPassed reports whether a lock was handed off: then its holder changes without a turn.
func (w *world) wasPassed(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.passed[name]
}
