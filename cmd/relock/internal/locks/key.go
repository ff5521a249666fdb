package locks

import (
	"github.com/relock-go/relock/internal/wire"
)

// isLock reports whether a hash with these fields, which need not be all, is a lock.
func isLock(fields []string) bool {
	for _, f := range fields {
		if f != "mode" && !wire.IsHoldID(f) {
			return false
		}
	}
	return len(fields) > 0
}
