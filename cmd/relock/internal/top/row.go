package top

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/cmd/relock/internal/locks"
)

// linger is how long a lock that was released stays in the table, so that busy locks do not
// flicker.
const linger = 5 * time.Second

// row is one lock of the table.
type row struct {
	locks.Lock
	read   time.Time // when it was read; zero if it was only found yet
	locked time.Time // when it was last seen locked
	hold   string    // the first holder, and since when it is known here
	since  time.Time
	heat   float64 // holders per second, lately
}

// update enters what was read.
func (r *row) update(l locks.Lock, now time.Time) {
	changed := 0.0
	if hold := firstHold(l); hold != r.hold {
		if r.hold, r.since = hold, now; hold != "" {
			changed = 1
		}
	}
	if !r.read.IsZero() {
		const memory = 10 * time.Second
		span := now.Sub(r.read)
		keep := max(0, 1-span.Seconds()/memory.Seconds())
		r.heat = r.heat*keep + changed/memory.Seconds()
	}
	if l.Locked() {
		r.locked = now
	}
	r.Lock, r.read = l, now
	if seen := now.Sub(r.since); l.Locked() && l.Held < seen && (l.AtLeast || l.Held == 0) {
		r.Held, r.AtLeast = seen, true
	}
}

func firstHold(l locks.Lock) string {
	if len(l.Holders) == 0 {
		return ""
	}
	return l.Holders[0].ID
}

// over reports whether the lock can leave the table.
func (r *row) over(now time.Time) bool {
	return !r.read.IsZero() && !r.Locked() && r.Waiters == 0 && now.Sub(r.locked) > linger
}

// An order is a way to sort the table.
type order struct {
	name    string
	compare func(a, b *row) int
}

// orders are the ways to sort; the first is the default. What is equal is sorted by name.
var orders = []order{
	{"heat", func(a, b *row) int {
		return cmp.Or(cmp.Compare(b.Waiters, a.Waiters), cmp.Compare(b.heat, a.heat), cmp.Compare(b.Held, a.Held))
	}},
	{"name", func(a, b *row) int { return 0 }},
	{"waiters", func(a, b *row) int { return cmp.Compare(b.Waiters, a.Waiters) }},
	{"held", func(a, b *row) int { return cmp.Compare(b.Held, a.Held) }},
	{"ttl", func(a, b *row) int { return cmp.Compare(a.TTL, b.TTL) }},
	{"kind", func(a, b *row) int { return strings.Compare(a.Kind(), b.Kind()) }},
}

// arrange returns the rows to show, in order.
func arrange(rows map[string]*row, filter string, by order, reverse bool) []*row {
	var shown []*row
	for _, r := range rows {
		if !r.read.IsZero() && (r.Locked() || r.Waiters > 0 || !r.locked.IsZero()) && matches(r, filter) {
			shown = append(shown, r)
		}
	}
	slices.SortFunc(shown, func(a, b *row) int {
		c := cmp.Or(by.compare(a, b), strings.Compare(a.Name, b.Name))
		if reverse {
			return -c
		}
		return c
	})
	return shown
}

// matches reports whether the name or a holder of a lock contains the filter.
func matches(r *row, filter string) bool {
	if filter == "" || strings.Contains(r.Name, filter) {
		return true
	}
	return slices.ContainsFunc(r.Holders, func(h relock.Holder) bool { return strings.Contains(locks.Who(h), filter) })
}
