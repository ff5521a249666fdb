package command

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/relock-go/relock"
)

// news is what the session has last told of the lock of run. It is safe for concurrent use.
type news struct {
	relock.NopObserver
	mu       sync.Mutex
	renewal  error // of the last renewal, nil if Redis has confirmed it
	renewed  time.Time
	released error // why Redis has not confirmed the release
}

func (n *news) Acquired(context.Context, relock.AcquireEvent) { n.confirm(nil) }

func (n *news) Renewed(e relock.RenewEvent) { n.confirm(e.Err) }

// confirm notes that Redis has confirmed the lease, or err.
func (n *news) confirm(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.renewal = err; err == nil {
		n.renewed = time.Now()
	}
}

func (n *news) Released(_ context.Context, e relock.ReleaseEvent) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.released = e.Err
}

// unconfirmed returns why Redis has not confirmed the release.
func (n *news) unconfirmed() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.released
}

// why says why a lock is lost, or not valid for longer: lost if it is lost, and what Redis said.
func (n *news) why(lost error) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []string
	if lost != nil {
		_, why, _ := strings.Cut(lost.Error(), relock.ErrLost.Error()[len(ours):]+": ")
		all = append(all, why)
	}
	switch {
	case n.renewal != nil:
		all = append(all, strings.TrimPrefix(n.renewal.Error(), ours))
	case lost == nil: // it waits for an answer, or stood still
		since := time.Since(n.renewed).Round(time.Millisecond)
		all = append(all, fmt.Sprintf("no answer from Redis for %v", since))
	}
	return strings.Join(all, "; ")
}

const ours = "relock: " // begins the errors of the library
