package wire

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/lockerr"
)

const maxName = 1 << 10 // bytes

// CheckName returns an error if name, in a session with a prefix, cannot name a lock. All keys and
// the channel of a lock must share a slot of a cluster. A key with a brace is used as it is, as
// Redisson does, so it needs a valid hash tag. The rule holds for every topology, so that code
// does not break when it moves to a cluster.
func CheckName(prefix, name string) error {
	key, with := prefix+name, ""
	if prefix != "" {
		with = fmt.Sprintf(", with the prefix %q,", prefix)
	}
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty", lockerr.ErrName)
	case len(key) > maxName:
		return fmt.Errorf("%w: it is%s %d bytes long, more than %d", lockerr.ErrName, with, len(key), maxName)
	case !tagged(key):
		return fmt.Errorf("%w: %q%s has a brace but no valid hash tag; write {tag} somewhere in it, or leave out the braces", lockerr.ErrName, name, with)
	}
	return nil
}

// CheckPrefix returns an error if no name, or not every name that is valid by itself, can have the
// prefix.
func CheckPrefix(prefix string) error {
	switch {
	case len(prefix) >= maxName:
		return fmt.Errorf("it is %d bytes long; with a name it must have at most %d", len(prefix), maxName)
	case !tagged(prefix):
		return errors.New("it has a brace but no valid hash tag")
	}
	return nil
}

// tagged reports whether a key has a valid hash tag, or no brace.
func tagged(key string) bool {
	_, tag, ok := strings.Cut(key, "{")
	return ok && strings.Index(tag, "}") > 0 || !ok && !strings.Contains(key, "}")
}

// tag returns a name as keys contain it, by Redisson's rule: with a hash tag.
func tag(name string) string {
	if strings.Contains(name, "{") {
		return name
	}
	return "{" + name + "}"
}

// Names on the wire. Those with redisson_ are Redisson's, the others relock's own.
const (
	prefixChannel   = "redisson_lock__channel"
	prefixRW        = "redisson_rwlock"
	prefixFence     = "relock_fence"
	prefixQueue     = "relock_queue"
	prefixRWQueue   = "relock_rwqueue"
	prefixReadQueue = "relock_rdqueue"
	prefixGrant     = "relock_grant"    // + : + session id
	PrefixSession   = "relock_session:" // + session id: its channel; + {session id}: its label
)

// IsGrantChannel reports whether a channel is one of Keys.Grants.
func IsGrantChannel(channel string) bool { return strings.HasPrefix(channel, prefixGrant) }

// IsSessionChannel reports whether a channel is that of a session, not of a lock.
func IsSessionChannel(channel string) bool { return strings.HasPrefix(channel, PrefixSession) }

// QueueOf returns the name of a Mutex's or FairMutex's queue.
func QueueOf(name string) string { return queueOf(prefixQueue, name) }

// queueOf returns the name of a lock's queue. By Redisson's rule the locks a and {a} would share
// it; that of a name with braces has one colon more.
func queueOf(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + ":" + name + ":"
	}
	return prefix + ":" + tag(name)
}

// Keys are the names of a lock's keys and channel.
type Keys struct {
	Name    string // the lock itself, a hash, of a semaphore a sorted set; the prefix of the session and the name that the user gave
	fence   string // its last fencing token
	Channel string // on which releases are published
	queue   string // of an RWMutex that of writers
	readers string // the queue of readers
	grants  string // what the channels of grants begin with, where pub/sub is sharded
	Prefix  string // read and write: of the rwlock_timeout keys; ends with a colon
}

// Grants returns the channel by which a session is told of grants of the lock, where pub/sub is
// sharded. Elsewhere that is the channel of the session.
func (k *Keys) Grants(session string) string { return k.grants + session }

// newKeys returns the names for a lock whose channel and queue have these prefixes.
func newKeys(name, channel, queue string) Keys {
	return Keys{
		Name: strings.Clone(name), fence: prefixFence + ":" + tag(name),
		Channel: channel + ":" + tag(name), queue: queueOf(queue, name), grants: prefixGrant + ":" + tag(name) + ":",
	}
}

// timeout returns Redisson's key for the lease of one read hold.
func (k *Keys) timeout(id string) string { return k.Prefix + id + ":rwlock_timeout:1" }

// Ref is one hold as Redis stores it, or a wait for one.
type Ref struct {
	Keys     *Keys
	ID       string        // hold id "<session>:<n>", a new n for every acquisition; a writer's ends with ":write"
	Length   time.Duration // time to live in Redis, at most
	GrantFor time.Duration // for how long it gets the lock at first that another's release grants to it: GrantOf
	Kind     Kind
	Renewed  bool // to its length for as long as it is held

	Permits int // of a semaphore: how many holds there may be for this one
	Slot    int // of a permit, once it is granted

	Rest time.Duration // of a release: for how long the lock stays taken all the same
	Note string        // that a renewal is to write, as returned by Note; "": it leaves the note as it is
}
