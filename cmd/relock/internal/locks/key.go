package locks

import (
	"strconv"

	"github.com/relock-go/relock/internal/wire"
)

// isLock reports whether a hash with these fields and their values, which need not be all, is a lock: an application's
// hash may have fields that look like hold ids.
func isLock(pairs []string) bool {
	for i := 0; i+1 < len(pairs); i += 2 {
		field, value := pairs[i], pairs[i+1]
		if field == "mode" {
			continue
		}
		if _, err := strconv.Atoi(value); err != nil || !wire.IsHoldID(field) {
			return false
		}
	}
	return len(pairs) > 0
}
