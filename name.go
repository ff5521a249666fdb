package relock

import (
	"fmt"
	"strings"
)

const maxName = 1 << 10 // bytes

// checkName reports why name cannot name a lock, if it cannot. The keys and the
// channel of a lock must share a slot of a cluster. A name with a brace is used as
// it is, as Redisson does, and then needs a hash tag of its own; so that code does
// not break on the day a cluster comes, that holds for every topology.
func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrName)
	case len(name) > maxName:
		return fmt.Errorf("%w: it is %d bytes long, more than %d", ErrName, len(name), maxName)
	case !strings.ContainsAny(name, "{}"):
		return nil
	}
	if _, tag, ok := strings.Cut(name, "{"); ok && strings.Index(tag, "}") > 0 {
		return nil
	}
	return fmt.Errorf("%w: %q has a brace but no valid hash tag; write {tag} somewhere in it, or leave out the braces", ErrName, name)
}

// prefixed returns the name of a key or channel that belongs to a lock, by
// Redisson's rule.
func prefixed(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + ":" + name
	}
	return prefix + ":{" + name + "}"
}

// Names on the wire. Those with redisson_ are Redisson's, the others relock's own.
const (
	prefixChannel = "redisson_lock__channel"
	prefixRW      = "redisson_rwlock"
	prefixFence   = "relock_fence"
	prefixQueue   = "relock_queue"
	prefixIntent  = "relock_intent"
	prefixGrant   = "relock_grant"    // + : + session id
	prefixSession = "relock_session:" // + session id
)

func isSessionChannel(channel string) bool { return strings.HasPrefix(channel, prefixSession) }

// suffixed returns the start of the names of keys that belong to a hold of a lock, by
// Redisson's rule.
func suffixed(name string) string {
	if strings.Contains(name, "{") {
		return name + ":"
	}
	return "{" + name + "}:"
}
