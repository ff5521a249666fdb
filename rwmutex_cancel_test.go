package relock_test

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A writer that waits gives up: the readers that it has stopped get in at once, those
// of its own session and of others.
func TestRWMutexCancelOfAWaitingWriterLetsReadersThrough(t *testing.T) {
	for name, ending := range endings {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, at addressed) {
				a, b, c := newSession(t, at), newSession(t, at), newSession(t, at)
				client := newClient(t, at)
				held := a.RWMutex("lock").RLocker()
				lock(t, background, held)
				ctx, end := ending.with()
				writer := b.RWMutex("lock")
				leaves := async(func() error { return writer.Lock(ctx) })
				var readers []relock.Locker
				var got []<-chan error
				if name == "cancelled" { // else the time may be over before anybody looks
					redistest.Eventually(t, soon, "the writer to wait", func() bool {
						return !tryRead(t, c.RWMutex("lock"))
					})
				}
				for _, s := range []*relock.Session{a, b, c} {
					for range 2 {
						r := s.RWMutex("lock").RLocker()
						readers = append(readers, r)
						got = append(got, async(func() error { return r.Lock(background) }))
					}
				}
				end()
				wantStopped(t, receive(t, leaves, "the writer to leave"), ending.err)
				start := time.Now()
				for i, r := range readers {
					require.NoError(t, receive(t, got[i], "a reader to get in"))
					require.NoError(t, r.Err())
				}
				require.Less(t, time.Since(start), quickly)
				require.NoError(t, held.Err())
				for _, r := range append(readers, held) {
					unlock(t, background, r)
				}
				mustBeQuiet(t, client, "lock", a, b, c)
			})
		})
	}
}

// Those that wait for a side leave at once, queued behind a goroutine of the same
// process or behind another process, and take nobody along.
func TestRWMutexWaiterThatIsCancelledLeavesAtOnce(t *testing.T) {
	eachPair(t, func(t *testing.T, holder, waiter side) {
		for name, ending := range endings {
			onBoth(t, func(t *testing.T, at addressed) {
				s, other, client := newSession(t, at), newSession(t, at), newClient(t, at)
				for _, from := range []*relock.Session{s, other} {
					held := holder.of(from.RWMutex("lock"))
					lock(t, background, held)
					var stopped []<-chan error
					end := make([]context.CancelFunc, 3)
					for i := range end {
						var ctx context.Context
						ctx, end[i] = ending.with()
						stopped = append(stopped, async(func() error { return waiter.of(s.RWMutex("lock")).Lock(ctx) }))
					}
					stays := waiter.of(s.RWMutex("lock"))
					got := async(func() error { return stays.Lock(background) })
					for i := range end {
						end[i]()
						wantStopped(t, receive(t, stopped[i], name+": a waiter to leave"), ending.err)
					}
					require.NoError(t, held.Err())
					unlock(t, background, held)
					require.NoError(t, receive(t, got, "the waiter that stays to get in"))
					unlock(t, background, stays)
				}
				mustBeQuiet(t, client, "lock", s, other)
			})
		}
	})
}
