package locks

import (
	"regexp"
	"strings"
)

// related returns the name of a key that belongs to a lock; see "Redisson" in the documentation
// of relock.
func related(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + ":" + name
	}
	return prefix + ":{" + name + "}"
}

// holdID is how relock and Redisson write who holds a lock.
var holdID = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}:\d+(:write)?$`)

// isLock reports whether a hash with these fields, which need not be all, is a lock.
func isLock(fields []string) bool {
	for _, f := range fields {
		if f != "mode" && !holdID.MatchString(f) {
			return false
		}
	}
	return len(fields) > 0
}
