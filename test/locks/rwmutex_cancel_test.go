package locks_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A writer that waits gives up: the readers that it has stopped get in at once, those
// of its own session and of others.
func TestRWMutexCancelOfAWaitingWriterLetsReadersThrough(t *testing.T) {
	for name, ending := range endings {
		t.Run(name, func(t *testing.T) {
			kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
				a, b, c := kit.NewSession(t, at), kit.NewSession(t, at), kit.NewSession(t, at)
				client := kit.NewClient(t, at)
				held := a.RWMutex("lock").RLocker()
				kit.Lock(t, kit.Background, held)
				ctx, end := ending.with()
				writer := b.RWMutex("lock")
				leaves := kit.Async(func() error { return writer.Lock(ctx) })
				var readers []relock.Locker
				var got []<-chan error
				if name == "cancelled" { // else the time may be over before anybody looks
					redistest.Eventually(t, kit.Soon, "the writer to wait", func() bool {
						return !tryRead(t, c.RWMutex("lock"))
					})
				}
				for _, s := range []*relock.Session{a, b, c} {
					for range 2 {
						r := s.RWMutex("lock").RLocker()
						readers = append(readers, r)
						got = append(got, kit.Async(func() error { return r.Lock(kit.Background) }))
					}
				}
				end()
				wantStopped(t, kit.Receive(t, leaves, "the writer to leave"), ending.err)
				start := time.Now()
				for i, r := range readers {
					require.NoError(t, kit.Receive(t, got[i], "a reader to get in"))
					require.NoError(t, r.Err())
				}
				require.Less(t, time.Since(start), kit.Quickly)
				require.NoError(t, held.Err())
				for _, r := range append(readers, held) {
					kit.Unlock(t, kit.Background, r)
				}
				mustBeQuiet(t, client, "lock", a, b, c)
			})
		})
	}
}
