package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/relock-go/relock/cmd/relock/internal/locks"
)

// A command under a lock may run relock again. If that waits for the same lock, it waits for
// itself: the outer relock holds the lock until its command has ended. Names do not tell, since
// prefixes and addresses may differ where the lock is the same; so each relock tells its command
// its session, and the inner one looks whether the holder is one of those.

// aroundVariable has the sessions of the relock runs around a command, with spaces in between.
const aroundVariable = "RELOCK_SESSIONS"

// around returns the sessions of the relock runs around this one.
func around() []string { return strings.Fields(os.Getenv(aroundVariable)) }

// errNested says that a relock run around this one holds the lock.
var errNested = errors.New("the relock run around this command holds this lock until the command ends: " +
	"it would wait for itself")

// waitsForItself reports whether who waits for the lock now, which is taken, waits for a relock run
// around it.
func (r *runner) waitsForItself(ctx context.Context, reader *locks.Reader) bool {
	outer := around()
	if len(outer) == 0 || r.adopt != "" {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	l, err := reader.Read(ctx, r.name)
	return err == nil && r.isAround(l, outer)
}

// isAround reports whether the relock runs of these sessions keep this one from having a lock. Of a
// semaphore they must have all permits; readers that cannot join them wait for a writer that waits
// for them.
func (r *runner) isAround(l locks.Lock, outer []string) bool {
	n := 0
	for _, h := range l.Holders {
		if slices.Contains(outer, h.Session) {
			n++
		}
	}
	return n >= max(r.slots, 1)
}

// nested returns how the program ends if a relock run around it has the lock.
func (r *runner) nested() error {
	return &exit{statusUsage, fmt.Errorf("%s: %w", locks.Printable(r.name), errNested)}
}
