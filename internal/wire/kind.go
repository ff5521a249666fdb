package wire

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/relock-go/relock/internal/transport"
)

// Kind is a type of lock, or a side of one, as stored in Redis. What is peculiar to it is in a file
// of its own: mutex.go, fairmutex.go, writer.go, reader.go, semaphore.go.
type Kind uint8

const (
	Plain Kind = iota // Mutex
	Fair              // FairMutex
	Write             // RWMutex, write side
	Read              // RWMutex, read side
	Semaphore
)

// A kind is what is peculiar to a Kind: how Redis is asked, and what its replies mean.
type kind interface {
	// For the process.

	family() string // of the locks that one owner may hold together at a key
	suffix() string // of hold ids
	joins() bool    // holds are readers': they share a lease, and have no token
	slots() bool    // holds are permits, which have slots
	passes() bool   // a hold may go from one goroutine to the next without Redis
	handsOff() bool // a hold may go to another process by a ticket
	holds() string  // Lua that tells whether the hold id ARGV[1] has the lock KEYS[1]

	// On the wire.

	keys(name string) Keys
	entry(l *Ref) string // of the queue

	// acquire returns the call that asks for a hold, and reply what an answer means: three numbers,
	// as the headers of the scripts say.
	acquire(p *Protocol, buf *callBuffer, l *Ref, a Ask) transport.Call
	reply(l *Ref, n, x, y int64) Reply

	// release returns the call that ends a hold, or for a call that gave up, its entry in a queue.
	release(p *Protocol, buf *callBuffer, l *Ref) transport.Call

	// polling names the script that polls for many waiters, and poll adds one to its call; renewal
	// and renew do the same for holds.
	polling() string
	poll(p *Protocol, l *Ref, c *transport.Call)
	renewal() string
	renew(l *Ref, c *transport.Call)
}

var allKinds = [...]kind{Plain: mutex{}, Fair: fairMutex{}, Write: writer{}, Read: reader{}, Semaphore: semaphore{}}

// Kinds returns all kinds.
func Kinds() (all []Kind) {
	for k := range allKinds {
		all = append(all, Kind(k))
	}
	return all
}

func (k Kind) of() kind { return allKinds[k] }

// Family names the locks that one owner may hold together at a key.
func (k Kind) Family() string { return k.of().family() }

// Suffix returns the end of hold ids.
func (k Kind) Suffix() string { return k.of().suffix() }

// Joins reports whether holds are readers', which share a lease and have no token.
func (k Kind) Joins() bool { return k.of().joins() }

// Slots reports whether holds are permits, which have slots.
func (k Kind) Slots() bool { return k.of().slots() }

// Passes reports whether a hold may go from one goroutine to the next without Redis.
func (k Kind) Passes() bool { return k.of().passes() }

// HandsOff reports whether a hold may go to another process by a ticket.
func (k Kind) HandsOff() bool { return k.of().handsOff() }

// Granted returns what the number in a message means that grants a hold of this kind.
func (k Kind) Granted(n int64) Reply { return k.of().reply(new(Ref), n, 0, -1) }

// NewKeys returns the names for one kind of lock.
func NewKeys(k Kind, name string) Keys { return k.of().keys(name) }

// An Ask is a request for a hold.
type Ask struct {
	LeaseMS string // its length
	Queue   bool   // it takes an entry in the queue if it is not granted
	Score   int64  // of the entry that the call had before; 0: it had none
	Note    string // of an exclusive hold: who has it and why, for people; see Note

	// Of a reader, as far as there are any.
	Writer string // the write hold of the same owner
	Join   string // the read hold of this process that readers may perhaps join

	With *transport.Batch // it is sent with others; nil: alone
}

// A Reply is the answer to an Ask, or to a poll.
type Reply struct {
	Granted bool
	Token   int64         // fencing token; 0: a reader has none
	Read    ReadReply     // to a reader
	Wanted  bool          // others wait behind the hold
	Term    time.Duration // how long it lasts at first
	Again   bool          // the session had the lock before as well, or nobody had it lately

	Wait   time.Duration // if it is not granted: until the lock may be free; negative if the holder's lease has no end
	Score  int64         // of the entry; 0: there is none
	Theirs bool          // the entry is first, and Redisson has the lock, or its turn
	Gone   bool          // to a poll: there is neither hold nor entry, or no token can be issued
}

// ReadReply is the answer to a reader whose request was not refused.
type ReadReply int64

const (
	ReadHeld  ReadReply = 1 // held; more readers may join if no writer waits
	ReadOther ReadReply = 3 // not held: readers may join the other hold
	ReadGone  ReadReply = 4 // not held, and neither is the other hold
)

// Acquire asks for a hold. A permit gets its slot. With an error the reply may be granted: too few
// replicas have it.
func (p *Protocol) Acquire(ctx context.Context, l *Ref, a Ask) (Reply, error) {
	var buf callBuffer
	k := l.Kind.of()
	c := k.acquire(p, &buf, l, a)
	var n []int64
	var err error
	switch {
	case p.Replicas > 0 && a.Join == "": // else it changes nothing that replicas must have
		if a.With != nil {
			a.With.Skip()
		}
		n, err = p.EvalWait(ctx, c.Script, c.Keys, c.Args)
	case a.With != nil:
		n, err = a.With.Eval(ctx, c.Script, c.Keys, c.Args).AsIntSlice()
	default:
		n, err = p.Eval(ctx, c.Script, c.Keys, c.Args).AsIntSlice()
	}
	if len(n) != 3 {
		return Reply{}, l.Keys.explain(cmp.Or(err, errReply))
	}
	return k.reply(l, n[0], n[1], n[2]), l.Keys.explain(err)
}

var errReply = errors.New("the reply is not one of three numbers")

// holds returns the reply to a request that was granted, for a time (ms) that is negative if others
// wait; waits returns the reply to one that was not.
func holds(token, term int64) Reply {
	r := Reply{Granted: true, Token: token, Wanted: term < 0}
	r.Term = time.Duration(max(term, -term)) * time.Millisecond
	return r
}

func waits(n, score, theirs int64) Reply {
	r := Reply{Score: score, Theirs: theirs == 1, Gone: n <= tokenless}
	r.Wait = time.Duration(-1-n) * time.Millisecond
	return r
}

// Replies of a poll, and those below.
const (
	gone      = -1 << 52 // the waiter is neither holder nor in the queue, or its lock is something else
	tokenless = -1 << 50 // it has the lock, but no token can be issued: a key beside the lock is something else
)

// fenceID returns the hold id for the fence key, whose session loses its entries when the lease has
// run out: none if it ends by itself.
func (l *Ref) fenceID() string {
	if l.Renewed {
		return l.ID
	}
	return "-"
}

// score returns the score of an entry as an argument.
func score(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}
