package locks

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/wire"
)

// fenceKept is how long Redis keeps a token after it was issued.
const fenceKept = time.Minute

// A Reader reads locks. It is safe for concurrent use.
type Reader struct {
	Client  rueidis.Client
	Session *relock.Session

	mu     sync.Mutex    // protects the following
	offset time.Duration // of the server's clock from this host's
	asked  time.Time     // when that was measured
}

// Read returns what is known of a lock, in two round trips.
func (r *Reader) Read(ctx context.Context, name string) (Lock, error) {
	l := Lock{Name: name}
	var err error
	if l.State, err = r.Session.Inspect(ctx, name); err != nil {
		return l, err
	}
	if !l.Locked() {
		return l, nil
	}
	b := r.Client.B()
	replies := r.Client.DoMulti(ctx,
		b.Hget().Key(name).Field("mode").Build(),
		b.Exists().Key(wire.QueueOf(name)).Build(),
		b.Get().Key(related("relock_fence", name)).Build())
	l.Kind = kind(replies)
	token, err := replies[2].AsInt64()
	switch {
	case l.Mode == relock.Shared: // readers have no token
	case err == nil:
		issued := time.UnixMilli(token / 1024)
		l.Held = max(time.Millisecond, time.Now().Add(r.clock(ctx)).Sub(issued))
	case rueidis.IsRedisNil(err):
		l.Held, l.AtLeast = fenceKept, true
	}
	return l, nil
}

// ErrChanged says that a lock was not opened since it has changed hands.
var ErrChanged = wire.ErrOtherHolder

// Open opens a lock that was read, and reports whether it was locked still. It does nothing and returns
// ErrChanged if somebody else holds the lock by now.
func (r *Reader) Open(ctx context.Context, l Lock) (bool, error) {
	var holders []string
	for _, h := range l.Holders {
		holders = append(holders, h.ID)
	}
	return peek.Open(ctx, r.Session, l.Name, holders)
}

// kind tells the kinds of locks apart as far as Redis knows. A FairMutex that nobody waits
// for is stored like a Mutex.
func kind(replies []rueidis.RedisResult) string {
	if mode, err := replies[0].ToString(); err == nil && (mode == "read" || mode == "write") {
		return mode
	}
	if queue, err := replies[1].AsInt64(); err == nil && queue > 0 {
		return "fair"
	}
	return "mutex"
}

// clock returns how far the server's clock is ahead of this host's, measured once a minute. In a
// cluster it is one node's.
func (r *Reader) clock(ctx context.Context) time.Duration {
	r.mu.Lock()
	offset, fresh := r.offset, time.Since(r.asked) < time.Minute
	r.mu.Unlock()
	if fresh {
		return offset
	}
	offset, _, err := Clock(ctx, r.Client)
	if err != nil {
		offset = 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offset, r.asked = offset, time.Now()
	return offset
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
