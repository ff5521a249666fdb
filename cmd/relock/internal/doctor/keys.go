package doctor

import (
	"strings"

	"github.com/relock-go/relock/internal/wire"
)

// keys are the names of the keys of a lock that nobody else uses.
type keys struct{ name, lock, fence, queue string }

func keysOf(name string) keys {
	return keys{name, name, related("relock_fence", name), wire.QueueOf(name)}
}

// related returns the name of a key or channel that belongs to a lock.
func related(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + ":" + name
	}
	return prefix + ":{" + name + "}"
}

// pattern is a kind of key that the user must have access to.
type pattern struct {
	pattern, why string
	severity     Severity
	key          string
	args         []string
}

// patterns returns a use of each kind of key that writes nothing, since there is no such key.
func (k keys) patterns() []pattern {
	write := []string{"PEXPIRE", "1"}
	hold := "{" + k.name + "}:"
	if strings.Contains(k.name, "{") {
		hold = k.name + ":"
	}
	hold += "00000000-0000-4000-8000-000000000000:1:rwlock_timeout:1"
	of := func(prefix, why string, s Severity) pattern {
		return pattern{related(prefix, "…"), why, s, related(prefix, k.name), write}
	}
	return []pattern{
		{"…", "the lock itself", Problem, k.lock, write},
		{"{…}:*:rwlock_timeout:*", "leases of readers", Problem, hold, write},
		of("relock_fence", "fencing tokens", Problem),
		of("relock_queue", "waiters", Problem),
		of("relock_rwqueue", "writers that wait for an RWMutex", Problem),
		of("relock_rdqueue", "readers that wait for an RWMutex", Problem),
		{"relock_session:*", "labels of sessions: without it nobody sees who holds a lock", Warning,
			"relock_session:{00000000-0000-4000-8000-000000000000}", []string{"PEXPIRE", "1"}},
	}
}

// channel is a kind of channel.
type channel struct {
	name, pattern, why string
	sharded            bool // in a cluster that can do that
}

func (k keys) channels() []channel {
	const session = "00000000-0000-4000-8000-000000000000"
	return []channel{
		{related("redisson_lock__channel", k.name), "redisson_lock__channel:{…}", "releases", true},
		{related("redisson_rwlock", k.name), "redisson_rwlock:{…}", "releases of an RWMutex", true},
		{related("relock_grant", k.name) + ":" + session, "relock_grant:{…}:*", "grants of a lock", true},
		{"relock_session:" + session, "relock_session:*", "messages to a session", false},
	}
}
