package locks

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
)

// A Reader reads locks. It is safe for concurrent use.
type Reader struct {
	Client  rueidis.Client
	Session *relock.Session
	Prefix  string // of the session's names
}

// Read returns what is known of a lock.
func (r *Reader) Read(ctx context.Context, name string) (Lock, error) {
	state, err := r.Session.Inspect(ctx, name)
	if err != nil {
		return Lock{Name: name}, err
	}
	return Lock{Name: name, State: state, Held: state.Age}, nil
}

// ErrChanged says that a lock was not opened since it has changed hands.
var ErrChanged = relock.ErrTaken

// Open opens a lock that was read, and reports whether it was locked still. It does nothing and returns
// ErrChanged if somebody else holds the lock by now.
func (r *Reader) Open(ctx context.Context, l Lock) (bool, error) {
	var holders []string
	for _, h := range l.Holders {
		holders = append(holders, h.ID)
	}
	return r.Session.ForceUnlockHolders(ctx, l.Name, holders...)
}

// Clock measures how far the server's clock is ahead of this host's, and the round trip.
func Clock(ctx context.Context, c rueidis.Client) (ahead, roundTrip time.Duration, err error) {
	sent := time.Now()
	parts, err := c.Do(ctx, c.B().Time().Build()).AsIntSlice()
	if err == nil && len(parts) != 2 {
		err = fmt.Errorf("TIME returned %d values", len(parts))
	}
	if err != nil {
		return 0, 0, err
	}
	roundTrip = time.Since(sent)
	there := time.Unix(parts[0], parts[1]*1000)
	return there.Sub(sent.Add(roundTrip / 2)), roundTrip, nil
}
