package locks_test

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/stretchr/testify/require"
)

// A call is cancelled while what it has sent is under way: the first try, or the one
// that queues, of a lock that is free or held. It is executed all the same, and nothing
// may be left of it.
func TestFairMutexCallThatIsCancelledInFlightLeavesNothing(t *testing.T) {
	calls := map[string]func(ctx context.Context, m *relock.FairMutex) error{
		"Lock":    func(ctx context.Context, m *relock.FairMutex) error { return m.Lock(ctx) },
		"TryLock": func(ctx context.Context, m *relock.FairMutex) error { _, err := m.TryLock(ctx); return err },
	}
	for call, do := range calls {
		for _, held := range []bool{false, true} {
			for _, queues := range []bool{false, true} {
				if queues && call == "TryLock" {
					continue
				}
				what := call + map[bool]string{true: " of a held lock", false: " of a free lock"}[held] +
					map[bool]string{true: ", queueing", false: ""}[queues]
				t.Run(what, func(t *testing.T) {
					t.Parallel()
					server, proxy := kit.Proxied(t)
					client, other := kit.NewClient(t, server), kit.NewSession(t, server).FairMutex("lock")
					s := kit.NewSession(t, proxy) // with a lease of 30 s
					m, keeper := s.FairMutex("lock"), s.FairMutex("lock")
					kit.Lock(t, kit.Background, m)
					kit.Unlock(t, kit.Background, m)
					for _, ending := range endings {
						if held || queues {
							kit.Lock(t, kit.Background, other)
						}
						if queues { // the session is subscribed, so the next call queues at once
							ctx, end := context.WithCancel(kit.Background)
							got := kit.Async(func() error { return keeper.Lock(ctx) })
							waiting(t, s, "lock", 1)
							end()
							require.ErrorIs(t, kit.Receive(t, got, "the keeper to leave"), context.Canceled)
							kit.GoneQuickly(t, client, "relock_queue:{lock}")
							if !held {
								kit.Unlock(t, kit.Background, other)
							}
						}
						sent := seen(proxy, kit.AcquireSHA)
						proxy.Stall(true)
						ctx, end := ending.with()
						result := kit.Async(func() error { return do(ctx, m) })
						kit.Receive(t, sent, "the call to be sent")
						end()
						wantStopped(t, kit.Receive(t, result, "the call to return while Redis does not answer"), ending.err)
						require.ErrorIs(t, m.Err(), relock.ErrNotHeld)
						proxy.Stall(false)
						if held {
							kit.Unlock(t, kit.Background, other)
						}
						nothingOf(t, client, "lock")
						kit.Lock(t, kit.Background, other)
						kit.Unlock(t, kit.Background, other)
					}
				})
			}
		}
	}
}

// Those that wait leave at once, and the others keep their order.
func TestFairMutexWaiterThatIsCancelledLeavesAtOnce(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, other, client := kit.NewSession(t, at), kit.NewSession(t, at), kit.NewClient(t, at)
		held := s.FairMutex("lock")
		for name, ending := range endings {
			kit.Lock(t, kit.Background, held)
			var ends []context.CancelFunc
			var stopped, got []<-chan error
			turns := make(chan int, 3)
			for i := range 6 {
				m := map[bool]*relock.Session{false: s, true: other}[i%4 < 2].FairMutex("lock")
				if i%2 == 0 {
					ctx, end := ending.with()
					ends = append(ends, end)
					stopped = append(stopped, kit.Async(func() error { return m.Lock(ctx) }))
				} else {
					got = append(got, kit.Async(func() error {
						return relock.Do(kit.Background, m, func(context.Context) error { turns <- i; return nil })
					}))
				}
				if name == "cancelled" { // the others leave by themselves
					waiting(t, s, "lock", i+1)
				}
			}
			for i := range ends {
				ends[i]()
				wantStopped(t, kit.Receive(t, stopped[i], "a waiter to leave"), ending.err)
			}
			waiting(t, s, "lock", 3)
			require.NoError(t, held.Err())
			kit.Unlock(t, kit.Background, held)
			for i := range got {
				require.NoError(t, kit.Receive(t, got[i], "the waiters that stay to get in"))
				if turn := <-turns; name == "cancelled" {
					require.Equal(t, 2*i+1, turn, "in order")
				}
			}
			nothingOf(t, client, "lock")
		}
	})
}

// The lock is on its way to a waiter that leaves: the next one does not wait for the
// end of that claim.
func TestFairMutexGrantThatComesTooLateIsHandedOn(t *testing.T) {
	t.Parallel()
	server, proxy := kit.Proxied(t)
	s, far := kit.NewSession(t, server), kit.NewSession(t, proxy)
	held, next := s.FairMutex("lock"), s.FairMutex("lock")
	for range 5 {
		kit.Lock(t, kit.Background, held)
		ctx, cancel := context.WithCancelCause(kit.Background)
		leaves := kit.Async(func() error { return far.FairMutex("lock").Lock(ctx) })
		waiting(t, s, "lock", 1)
		got := kit.Async(func() error { return next.Lock(kit.Background) })
		waiting(t, s, "lock", 2)
		proxy.Stall(true)
		kit.Unlock(t, kit.Background, held)
		require.Equal(t, far.ID(), kit.HoldersOf(t, s, "lock")[0].Session)
		cancel(kit.ErrStop)
		wantStopped(t, kit.Receive(t, leaves, "the waiter to leave"), context.Canceled)
		start := time.Now()
		proxy.Stall(false)
		require.NoError(t, kit.Receive(t, got, "the next to get in"))
		require.Less(t, time.Since(start), 4*time.Second, "the claim is 5 s")
		kit.Unlock(t, kit.Background, next)
	}
	nothingOf(t, kit.NewClient(t, server), "lock")
}

// Sessions that close leave the queue, and pass on what they are granted meanwhile.
func TestFairMutexWaitersLeaveWhenTheirSessionCloses(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, client := kit.NewSession(t, at), kit.NewClient(t, at)
		held := s.FairMutex("lock")
		for i := range 5 {
			kit.Lock(t, kit.Background, held)
			closes := kit.NewSession(t, at)
			var stopped []<-chan error
			for range 4 {
				stopped = append(stopped, kit.Async(func() error { return closes.FairMutex("lock").Lock(kit.Background) }))
			}
			waiting(t, s, "lock", 4)
			if i%2 == 0 {
				require.NoError(t, closes.Close(kit.Background))
				waiting(t, s, "lock", 0)
				kit.Unlock(t, kit.Background, held)
			} else {
				done := kit.Async(func() error { return closes.Close(kit.Background) })
				kit.Unlock(t, kit.Background, held)
				require.NoError(t, kit.Receive(t, done, "the session to close"))
			}
			for _, c := range stopped {
				if err := kit.Receive(t, c, "a waiter to leave"); i%2 == 0 || err != nil {
					require.ErrorIs(t, err, relock.ErrClosed)
				}
			}
			nothingOf(t, client, "lock")
		}
	})
}

// The holder's session closes: the lock goes to the first waiter, as by an unlock.
func TestFairMutexOfASessionThatClosesGoesToTheNext(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, closes := kit.NewSession(t, at), kit.NewSession(t, at)
		held, next := closes.FairMutex("lock"), s.FairMutex("lock")
		kit.Lock(t, kit.Background, held)
		done := held.Done()
		got := kit.Async(func() error { return next.Lock(kit.Background) })
		waiting(t, s, "lock", 1)
		require.NoError(t, closes.Close(kit.Background))
		require.True(t, kit.IsClosed(done))
		require.ErrorIs(t, held.Unlock(kit.Background), relock.ErrLost)
		require.NoError(t, kit.Receive(t, got, "the next to get in"))
		require.NoError(t, next.Err())
		kit.Unlock(t, kit.Background, next)
	})
}
