package locks

import (
	"cmp"
	"time"

	"github.com/relock-go/relock"
)

// A Lock is what is known of one lock.
type Lock struct {
	Name string
	relock.State
	Held    time.Duration // how long it has been held; 0 if that is not known
	AtLeast bool          // it has been held for Held or longer
}

// Kind returns how the lock is held, as far as Redis knows: it does not tell a Mutex from a FairMutex, or from the
// write side of an RWMutex. It is empty if nobody holds the lock.
func (l Lock) Kind() string {
	switch {
	case !l.Locked():
		return ""
	case l.Permits > 0:
		return "semaphore"
	}
	return l.Mode.String()
}

// Locked reports whether somebody holds the lock.
func (l Lock) Locked() bool { return l.Mode != relock.Unlocked }

// Holder returns who holds the lock, and the note of the hold if it has one.
func (l Lock) Holder() string {
	switch {
	case len(l.Holders) == 0:
		return ""
	case l.Note != "":
		return Who(l.Holders[0]) + ": " + Printable(l.Note)
	}
	return Who(l.Holders[0])
}

// Who returns who a holder is: what it says of itself, else its session.
func Who(h relock.Holder) string { return Printable(cmp.Or(h.Label, h.Session)) }
