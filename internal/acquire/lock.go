package acquire

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/event"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/local"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/wire"
)

// A Lock is a lock of one deployment: an exclusive one, one side of a read-write lock, or a
// semaphore. Init makes it usable.
type Lock struct {
	n      *Node
	kind   wire.Kind
	table  *tabled // nil: every call asks Redis for itself
	owned  local.Key
	keys   wire.Keys
	config LockConfig // its Lease is set, and at most MaxHold; its Err is also that of the name

	leaseMS string // config.Lease
}

// LockConfig configures a lock.
type LockConfig struct {
	Lease   time.Duration // length of its leases; 0: the session's
	MaxHold time.Duration // a hold does not last longer; 0: no bound
	MinHold time.Duration // from the acquisition, for which nobody else gets the lock
	Keep    time.Duration // the session keeps the lock for so long after Unlock
	Wait    time.Duration // Lock does not wait longer; 0: no bound
	Permits int           // of a semaphore
	Note    string        // who has a hold and why, for people
	Err     error         // misuse of an option, returned by every operation
	Fixed   bool          // leases are not renewed
}

// Unbounded reports whether a hold lasts until its Unlock: its lease is renewed, and may go from call
// to call of this process. One whose length is bounded is its owner's alone.
func (c *LockConfig) Unbounded() bool { return !c.Fixed && c.MaxHold == 0 && c.MinHold == 0 }

// Takes returns the length of the leases that a call takes over from another; 0: it takes none
// over.
func (c *LockConfig) Takes(length time.Duration) int64 {
	if c.Unbounded() {
		return int64(length)
	}
	return 0
}

// Bounded returns a context for a call that does not outlast its wait.
func (c *LockConfig) Bounded(ctx context.Context, call *Call) (context.Context, context.CancelFunc) {
	if call.Try || c.Wait == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.Wait)
}

// Init makes l the lock of a name. Its first call reports a bad name or option.
func (l *Lock) Init(n *Node, k wire.Kind, name string, cfg LockConfig) {
	l.n, l.kind, l.keys, l.config = n, k, wire.NewKeys(k, n.KeyOf(name)), cfg
	if err := wire.CheckName(n.Config.Prefix, name); err != nil {
		l.config.Err = err
	}
	if cfg.Lease == 0 {
		l.config.Lease = n.Config.Lease
	}
	if cfg.MaxHold > 0 {
		l.config.Lease = min(l.config.Lease, cfg.MaxHold.Truncate(time.Millisecond))
	}
	if l.leaseMS = n.leaseMS; l.config.Lease != n.Config.Lease {
		l.leaseMS = wire.Millis(l.config.Lease)
	}
	l.owned = local.Key{Of: n.families[k.Family()], Name: l.keys.Name}
	if k.Passes() && (!k.Joins() || l.config.Unbounded() && l.config.Lease == n.Config.Lease) { // readers share a lease of the session's length
		l.table = n.tables[k.Family()]
	}
}

// Name returns the name of the lock that the user gave: its key without the prefix.
func (l *Lock) Name() string { return l.n.NameOf(l.keys.Name) }

// Node returns where the lock is.
func (l *Lock) Node() *Node { return l.n }

// Invalid returns what is wrong with the lock's name or options, nil if nothing is.
func (l *Lock) Invalid() error { return l.config.Err }

// Length returns the length of the lock's leases.
func (l *Lock) Length() time.Duration { return l.config.Lease }

// newLease returns a lease with a new id, not yet acquired. Messages find it from now on; given back
// or released, it is forgotten.
func (l *Lock) newLease() *lease.Lease {
	of := &lease.Lease{
		Ref: wire.Ref{
			Keys: &l.keys, Kind: l.kind, ID: l.n.newID(l.kind), Length: l.config.Lease, GrantFor: wire.GrantOf(l.config.Lease),
			Renewed: l.config.Unbounded(), Permits: l.config.Permits,
		},
		Fixed:   l.config.Fixed,
		MinHold: min(l.config.MinHold, time.Duration(lease.Forever)),
	}
	of.SetNote(l.config.Note, false)
	of.For, of.Takes = of, l.config.Takes(l.config.Lease)
	return of
}

var (
	kinds = [...]event.Kind{
		wire.Plain: event.Mutex, wire.Fair: event.Fair, wire.Write: event.Write, wire.Read: event.Read, wire.Semaphore: event.Semaphore,
	}
	ops = [...][2]string{
		wire.Plain: {"lock", "unlock"}, wire.Fair: {"lock", "unlock"}, wire.Write: {"lock", "unlock"}, wire.Read: {"rlock", "runlock"},
		wire.Semaphore: {"lock", "unlock"},
	}
)

// op returns the operation of a call for errors. A group's are told as if its members were locked
// by it.
func (l *Lock) op(c *Call) string {
	switch {
	case c.Op == opAdopt:
		return opAdopt
	case c.Try:
		return "try " + ops[l.kind][0]
	}
	return ops[l.kind][0]
}

// fails returns the failure of a call.
func (l *Lock) fails(c *Call, errs ...error) error { return lockerr.New(l.op(c), l.Name(), errs...) }

// heldBy returns the hold that o has on this side, live or lost; nil if it has none.
func (l *Lock) heldBy(o *local.Owner) *local.Hold {
	if o == nil {
		return nil
	}
	return o.Held(l.owned, l.kind.Joins())
}

// refresh loses a live hold whose lease is not valid any more, and reports whether that is so. A
// process that was frozen may look before its watchdog does.
func (l *Lock) refresh(h *local.Hold, now int64) bool {
	if h == nil || h.State() != local.Live || h.Lease.Valid(now) {
		return false
	}
	l.n.Lost(lease.Of(h.Lease), lockerr.ErrExpired)
	return true
}
