package relock_test

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
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
					server, proxy := proxied(t)
					client, other := newClient(t, server), newSession(t, server).FairMutex("lock")
					s := newSession(t, proxy) // with a lease of 30 s
					m, keeper := s.FairMutex("lock"), s.FairMutex("lock")
					lock(t, background, m)
					unlock(t, background, m)
					for _, ending := range endings {
						if held || queues {
							lock(t, background, other)
						}
						if queues { // the session is subscribed, so the next call queues at once
							ctx, end := context.WithCancel(background)
							got := async(func() error { return keeper.Lock(ctx) })
							waiting(t, s, "lock", 1)
							end()
							require.ErrorIs(t, receive(t, got, "the keeper to leave"), context.Canceled)
							goneQuickly(t, client, "relock_queue:{lock}")
							if !held {
								unlock(t, background, other)
							}
						}
						sent := seen(proxy, enterSHA)
						proxy.Stall(true)
						ctx, end := ending.with()
						result := async(func() error { return do(ctx, m) })
						receive(t, sent, "the call to be sent")
						end()
						wantStopped(t, receive(t, result, "the call to return while Redis does not answer"), ending.err)
						require.ErrorIs(t, m.Err(), relock.ErrNotHeld)
						proxy.Stall(false)
						if held {
							unlock(t, background, other)
						}
						nothingOf(t, client, "lock")
						lock(t, background, other)
						unlock(t, background, other)
					}
				})
			}
		}
	}
}

// Those that wait leave at once, and the others keep their order.
func TestFairMutexWaiterThatIsCancelledLeavesAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s, other, client := newSession(t, at), newSession(t, at), newClient(t, at)
		held := s.FairMutex("lock")
		for name, ending := range endings {
			lock(t, background, held)
			var ends []context.CancelFunc
			var stopped, got []<-chan error
			turns := make(chan int, 3)
			for i := range 6 {
				m := map[bool]*relock.Session{false: s, true: other}[i%4 < 2].FairMutex("lock")
				if i%2 == 0 {
					ctx, end := ending.with()
					ends = append(ends, end)
					stopped = append(stopped, async(func() error { return m.Lock(ctx) }))
				} else {
					got = append(got, async(func() error {
						return relock.Do(background, m, func(context.Context) error { turns <- i; return nil })
					}))
				}
				if name == "cancelled" { // the others leave by themselves
					waiting(t, s, "lock", i+1)
				}
			}
			for i := range ends {
				ends[i]()
				wantStopped(t, receive(t, stopped[i], "a waiter to leave"), ending.err)
			}
			waiting(t, s, "lock", 3)
			require.NoError(t, held.Err())
			unlock(t, background, held)
			for i := range got {
				require.NoError(t, receive(t, got[i], "the waiters that stay to get in"))
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
func TestFairMutexGrantThatComesTooLateIsPassedOn(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	s, far := newSession(t, server), newSession(t, proxy)
	held, next := s.FairMutex("lock"), s.FairMutex("lock")
	for range 5 {
		lock(t, background, held)
		ctx, cancel := context.WithCancelCause(background)
		leaves := async(func() error { return far.FairMutex("lock").Lock(ctx) })
		waiting(t, s, "lock", 1)
		got := async(func() error { return next.Lock(background) })
		waiting(t, s, "lock", 2)
		proxy.Stall(true)
		unlock(t, background, held)
		require.Equal(t, far.ID(), holdersOf(t, s, "lock")[0].Session)
		cancel(errStop)
		wantStopped(t, receive(t, leaves, "the waiter to leave"), context.Canceled)
		start := time.Now()
		proxy.Stall(false)
		require.NoError(t, receive(t, got, "the next to get in"))
		require.Less(t, time.Since(start), 4*time.Second, "the claim is 5 s")
		unlock(t, background, next)
	}
	nothingOf(t, newClient(t, server), "lock")
}

// Sessions that close leave the queue, and pass on what they are granted meanwhile.
func TestFairMutexWaitersLeaveWhenTheirSessionCloses(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s, client := newSession(t, at), newClient(t, at)
		held := s.FairMutex("lock")
		for i := range 5 {
			lock(t, background, held)
			closes := newSession(t, at)
			var stopped []<-chan error
			for range 4 {
				stopped = append(stopped, async(func() error { return closes.FairMutex("lock").Lock(background) }))
			}
			waiting(t, s, "lock", 4)
			if i%2 == 0 {
				require.NoError(t, closes.Close(background))
				waiting(t, s, "lock", 0)
				unlock(t, background, held)
			} else {
				done := async(func() error { return closes.Close(background) })
				unlock(t, background, held)
				require.NoError(t, receive(t, done, "the session to close"))
			}
			for _, c := range stopped {
				if err := receive(t, c, "a waiter to leave"); i%2 == 0 || err != nil {
					require.ErrorIs(t, err, relock.ErrClosed)
				}
			}
			nothingOf(t, client, "lock")
		}
	})
}

// The holder's session closes: the lock goes to the first waiter, as by an unlock.
func TestFairMutexOfASessionThatClosesGoesToTheNext(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s, closes := newSession(t, at), newSession(t, at)
		held, next := closes.FairMutex("lock"), s.FairMutex("lock")
		lock(t, background, held)
		done := held.Done()
		got := async(func() error { return next.Lock(background) })
		waiting(t, s, "lock", 1)
		require.NoError(t, closes.Close(background))
		require.True(t, isClosed(done))
		require.ErrorIs(t, held.Unlock(background), relock.ErrLost)
		require.NoError(t, receive(t, got, "the next to get in"))
		require.NoError(t, next.Err())
		unlock(t, background, next)
	})
}
