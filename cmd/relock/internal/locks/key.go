package locks

import (
	"strings"

	"github.com/relock-go/relock/internal/wire"
)

// related returns the name of a key that belongs to a lock; see "Redisson" in the documentation
// of relock.
func related(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + ":" + name
	}
	return prefix + ":{" + name + "}"
}

// isLock reports whether a hash with these fields, which need not be all, is a lock.
func isLock(fields []string) bool {
	for _, f := range fields {
		if f != "mode" && !wire.IsHoldID(f) {
			return false
		}
	}
	return len(fields) > 0
}
