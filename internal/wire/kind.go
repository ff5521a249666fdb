package wire

import (
	"context"
	"time"

	"github.com/redis/rueidis"
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

	// On the wire.

	keys(name string) Keys
	grantFor(l *Ref) string // as an argument

	// acquire returns the call that asks for a hold, granted what its reply means: a number, of a
	// permit with a slot, else -1.
	acquire(p *Protocol, buf *callBuffer, l *Ref, a Ask) transport.Call
	granted(l *Ref, n, slot int64) Reply

	// release returns the call that ends a hold, or for a call that gave up, its entry in a queue.
	release(p *Protocol, buf *callBuffer, l *Ref) transport.Call

	// renewal names the script that renews holds, and renewed adds one to its call.
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

// Reply returns what a positive number means that grants a hold of this kind, or a negative one
// that tells how long to wait: in a reply, or a message.
func (k Kind) Reply(n int64) Reply { return k.of().granted(new(Ref), n, -1) }

// NewKeys returns the names for one kind of lock.
func NewKeys(k Kind, name string) Keys { return k.of().keys(name) }

// An Ask is a request for a hold.
type Ask struct {
	LeaseMS string // its length
	Queue   bool   // it takes an entry in the queue if it is not granted

	// Of a reader, as far as there are any.
	Writer string // the write hold of the same owner
	Join   string // the read hold of this process that readers may perhaps join

	With *transport.Batch // it is sent with others; nil: alone
}

// A Reply is the answer to an Ask.
type Reply struct {
	Granted bool
	Token   int64         // fencing token; 0: a reader has none
	Read    ReadReply     // to a reader
	Wait    time.Duration // if it is not granted: until the lock may be free; negative if the holder's lease has no end
}

// ReadReply is the answer to a reader whose request was not refused.
type ReadReply int64

const (
	ReadJoin  ReadReply = 1 // held, and more readers may join
	readAlone ReadReply = 2 // held, but a writer waits
	ReadOther ReadReply = 3 // not held: readers may join the other hold
	ReadGone  ReadReply = 4 // not held, and neither is the other hold
)

// Acquire asks for a hold. A permit gets its slot. With an error the reply may be granted: too few
// replicas have it.
func (p *Protocol) Acquire(ctx context.Context, l *Ref, a Ask) (Reply, error) {
	var buf callBuffer
	k := l.Kind.of()
	c := k.acquire(p, &buf, l, a)
	n, slot, err := int64(0), int64(-1), error(nil)
	var reply []int64
	switch {
	case p.Replicas > 0 && a.Join == "": // else it changes nothing that replicas must have
		if a.With != nil {
			a.With.Skip()
		}
		reply, err = p.EvalWait(ctx, c.Script, c.Keys, c.Args)
	case k.slots():
		reply, err = p.run(ctx, c, a.With).AsIntSlice()
	default:
		n, err = p.run(ctx, c, a.With).AsInt64()
	}
	if len(reply) > 0 {
		n = reply[0]
	}
	if len(reply) > 1 {
		slot = reply[1]
	}
	return k.granted(l, n, slot), l.Keys.explain(err)
}

// run runs a script, with others if there are any.
func (p *Protocol) run(ctx context.Context, c transport.Call, with *transport.Batch) rueidis.RedisResult {
	if with != nil {
		return with.Eval(ctx, c.Script, c.Keys, c.Args)
	}
	return p.Eval(ctx, c.Script, c.Keys, c.Args)
}

// waits returns the reply to a call that is not granted.
func waits(n int64) Reply { return Reply{Wait: time.Duration(-1-n) * time.Millisecond} }
