package acquire

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/event"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/local"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/queue"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// Config configures the locks of a session.
type Config struct {
	Scripts  *wire.Scripts
	Prefix   string         // before the names of all locks
	Label    string         // of the session, for people; may be empty
	Lease    time.Duration  // of locks without one of their own
	Tenure   time.Duration  // the hand-off window
	Replicas int            // replicas that must acknowledge an acquisition
	AckWait  time.Duration  // for their acknowledgement
	Observer event.Observer // nil: nobody is told

	Background bool // the session starts in the background
}

// A Node is one deployment as one session uses it: what all its locks share. Package session makes
// it, and runs and ends its parts.
type Node struct {
	Config   Config
	Clock    *clock.Clock
	ID       string // of the session
	Proto    *wire.Protocol
	Queue    *queue.Queue
	Watchdog *lease.Watchdog
	Cleaner  *lease.Cleaner
	Keeper   *lease.Keeper
	Leases   lease.Registry
	Redlocks *local.Table // of the Redlocks whose sessions this is the first of, by its id

	Draining *transport.Context // ends when nothing new is granted
	Closing  *transport.Context // ends when the session closes
	Calls    Calls              // that Close waits for

	tables   map[string]*tabled // by family
	families map[string]*string // of all locks, for owners
	pool     *local.Table       // of calls, of all kinds
	leaseMS  string             // Config.Lease

	deployment atomic.Pointer[string] // nil: not known yet
}

// Calls are operations under way, which Close waits for.
type Calls interface {
	// Begin counts an operation, and reports false after Close. End must follow a true one.
	Begin() bool

	// Track is Begin also after Close, for what must not be cut off: an unlock that finds its hold
	// closed sends nothing, and one that was faster must release it. End must follow.
	Track()
	End()

	// Leave notes that l is being released in the background, which Close waits for; Over that this
	// has ended, with the last error of Redis if l may still be there.
	Leave(l *lease.Lease)
	Over(l *lease.Lease, err error)
}

// Init makes n usable. Its fields are set.
func (n *Node) Init() {
	n.leaseMS = wire.Millis(n.Config.Lease)
	n.Redlocks = local.NewTable(int64(n.Config.Tenure))
	n.families = make(map[string]*string)
	for _, k := range wire.Kinds() {
		family := k.Family()
		n.families[family] = &family
	}
	n.tables = make(map[string]*tabled)
	for _, k := range []wire.Kind{wire.Plain, wire.Write} {
		n.tables[k.Family()] = &tabled{local.NewTable(int64(n.Config.Tenure)), n}
	}
	n.pool = n.Table(wire.Plain)
	n.Heard(false)
}

// Deployment returns what tells the deployment from others, for all sessions of it the same; ""
// until the session has found out.
func (n *Node) Deployment() string {
	if d := n.deployment.Load(); d != nil {
		return *d
	}
	return ""
}

// SetDeployment sets what Deployment returns.
func (n *Node) SetDeployment(d string) { n.deployment.Store(&d) }

// Heard records that the session hears messages from now on, or does not any more. Somebody may
// have forced its locks open meanwhile: renewals tell.
func (n *Node) Heard(hears bool) {
	since := int64(local.Never)
	if hears {
		since = n.Clock.Now()
	}
	for _, t := range n.tables {
		t.Heard(since)
	}
	n.Keeper.Heard(hears)
	if hears {
		n.Watchdog.RenewAll()
	}
}

// Drained reports whether nothing new is granted.
func (n *Node) Drained() bool { return n.Draining.Err() != nil }

// Closed reports whether the session closes.
func (n *Node) Closed() bool { return n.Closing.Err() != nil }

// NameOf returns the name of the lock with that key.
func (n *Node) NameOf(key string) string { return strings.TrimPrefix(key, n.Config.Prefix) }

// KeyOf returns the key of the lock with that name.
func (n *Node) KeyOf(name string) string { return n.Config.Prefix + name }

// Table returns the table of the locks of a kind, nil if there is none.
func (n *Node) Table(k wire.Kind) *local.Table {
	if t := n.tables[k.Family()]; t != nil {
		return t.Table
	}
	return nil
}

// Keeps returns the hold id under which the session keeps the lock of a name; "" if it does not.
func (n *Node) Keeps(name string) string {
	if l := n.Table(wire.Plain).Kept(n.KeyOf(name)); l != nil {
		return lease.Of(l).ID
	}
	return ""
}

// random is for the hold ids of all sessions. In FIPS mode each of the goroutines that read
// rand.Reader at once seeds a generator, which takes a processor for milliseconds.
var random = struct {
	sync.Mutex
	*bufio.Reader
}{Reader: bufio.NewReaderSize(rand.Reader, 512)}

// newID returns a hold id that no hold had before, with a random number of 62 bits that nobody can
// guess: with it one can end the hold, or pretend that it was granted. Redisson reads the number as
// the id of a thread.
func (n *Node) newID(k wire.Kind) string {
	var buf [64]byte
	var r [8]byte
	random.Lock()
	_, _ = io.ReadFull(random.Reader, r[:]) // never fails
	random.Unlock()
	b := append(buf[:0], n.ID...)
	b = append(b, ':')
	b = strconv.AppendUint(b, binary.LittleEndian.Uint64(r[:])>>2, 10)
	b = append(b, k.Suffix()...)
	return string(b)
}

// How holds are lost, and recalled.

// Lost ends the holds on a lease that is lost, and reports the loss. It implements lease.Owner.
func (n *Node) Lost(l *lease.Lease, cause error) {
	holds, had := l.Of.Lose(l, cause)
	if !had {
		return
	}
	n.Keeper.Forget(l, n.Clock.Now())
	n.Watchdog.Remove(l)
	for _, h := range holds {
		h.Tell()
	}
	switch {
	case cause == lockerr.ErrLostAtClose:
		n.releaseSoon(l, false, func() {})
		if l.Indeterminate {
			n.Cleaner.Add(l, true, nil)
		}
	case cause != lockerr.ErrGone && cause != lockerr.ErrForced || l.Kind.Joins():
		n.Cleaner.Add(l, l.Indeterminate, nil) // its keys may outlive our deadline
	}
	n.Leases.Remove(l)
	for _, h := range holds { // last: an observer may panic
		ReportLoss(n.Config.Observer, h, n.NameOf(l.Keys.Name), kinds[l.Kind])
	}
}

// Renewed implements lease.Owner.
func (n *Node) Renewed(holds int, took time.Duration, first error) {
	if o := n.Config.Observer; o != nil {
		o.Renewed(event.Renew{Holds: holds, Duration: took, Err: lockerr.New("renew", "", first)})
	}
}

// Recall follows up that another session waits for the lock that l has. If l is kept, it is
// released.
func (n *Node) Recall(l *lease.Lease) {
	n.Calls.Track()
	defer n.Calls.End()
	l.Of.Recall(l)
}

// Drop releases l if it is kept.
func (n *Node) Drop(l *lease.Lease) {
	n.Calls.Track() // or Close might see it neither kept nor released
	defer n.Calls.End()
	if t, ok := l.Of.(*tabled); ok {
		n.drop(t.Dropped(l.Keys.Name, &l.Lease, n.Clock.Now()))
	}
}

// drop follows up a step of what was kept.
func (n *Node) drop(step local.Step) {
	if step.Do == local.Release {
		l := lease.Of(step.Lease)
		n.Keeper.Forget(l, n.Clock.Now())
		n.releaseLater(l)
	}
}

// tabled has the leases of a table.
type tabled struct {
	*local.Table
	n *Node
}

func (t *tabled) Lose(l *lease.Lease, cause error) ([]*local.Hold, bool) {
	return t.Lost(l.Keys.Name, &l.Lease, cause, t.n.Clock.Now())
}

func (t *tabled) Recall(l *lease.Lease) {
	now := t.n.Clock.Now()
	t.n.drop(t.Recalled(l.Keys.Name, &l.Lease, now))
}

// alone has a lease that is in no table, for one hold: nil until it is granted.
type alone struct{ atomic.Pointer[local.Hold] }

func (a *alone) Lose(_ *lease.Lease, cause error) ([]*local.Hold, bool) {
	if h := a.Load(); h != nil && h.End(local.Lost, cause) {
		return []*local.Hold{h}, true
	}
	return nil, false
}

func (a *alone) Recall(*lease.Lease) {
	if h := a.Load(); h != nil {
		h.SetWanted()
	}
}
