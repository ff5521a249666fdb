package faults_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Whatever happens while locks of a kind wait, in several sessions, everybody gets in, one at a time.
func TestWaitersGetInAfterAFault(t *testing.T) {
	const waiters = 12
	type happens func(t *testing.T, s *redistest.Server, held relock.Locker)
	do := func(commands ...[]string) happens {
		return func(t *testing.T, s *redistest.Server, _ relock.Locker) {
			for _, args := range commands {
				_, err := s.Do(args...)
				require.NoError(t, err)
			}
		}
	}
	type fault struct {
		lease time.Duration
		do    happens
	}
	faults := map[string]fault{
		"scripts are forgotten":    {30 * time.Second, do([]string{"SCRIPT", "FLUSH"})},
		"subscriptions are cut":    {30 * time.Second, do([]string{"CLIENT", "KILL", "TYPE", "pubsub"})},
		"all connections are cut":  {30 * time.Second, do([]string{"CLIENT", "KILL", "TYPE", "pubsub"}, []string{"CLIENT", "KILL", "TYPE", "normal"})},
		"the queue is lost":        {30 * time.Second, do([]string{"DEL", "relock_queue:{lock}", "relock_rwqueue:{lock}"})},
		"the lock is lost":         {time.Second, do([]string{"DEL", "lock"})},
		"Redis pauses its clients": {30 * time.Second, do([]string{"CLIENT", "PAUSE", "300"})},
		"Redis loses its data":     {time.Second, do([]string{"FLUSHALL"})},
		"Redis is frozen for less than a lease": {3 * time.Second, func(t *testing.T, s *redistest.Server, _ relock.Locker) {
			require.NoError(t, s.Freeze())
			time.Sleep(300 * time.Millisecond)
			require.NoError(t, s.Thaw())
		}},
		"Redis is frozen for longer than a lease": {1500 * time.Millisecond, func(t *testing.T, s *redistest.Server, held relock.Locker) {
			require.NoError(t, s.Freeze())
			kit.Receive(t, held.Done(), "the holder to be told")
			time.Sleep(500 * time.Millisecond)
			require.NoError(t, s.Thaw())
		}},
		"Redis restarts and loads its data": {30 * time.Second, func(t *testing.T, s *redistest.Server, held relock.Locker) {
			_, err := s.Do("EVAL", "for i = 1, 4000 do redis.call('set', 'filler' .. i, i) end", "0")
			require.NoError(t, err)
			s.Kill()
			restarted := kit.Async(s.Restart)
			redistest.Eventually(t, kit.Soon, "the server to load", func() bool {
				_, err := s.Do("PING")
				return err != nil && strings.HasPrefix(err.Error(), "LOADING")
			})
			require.NoError(t, kit.Receive(t, restarted, "the restart"))
			require.NoError(t, held.Err())
		}},
	}
	// Redis answers late, all of it or its writes, and the holder is told meanwhile.
	for _, pause := range [][]string{{"CLIENT", "PAUSE", "3000", "ALL"}, {"CLIENT", "PAUSE", "3000", "WRITE"}, {"DEBUG", "SLEEP", "3"}} {
		faults[strings.Join(pause, " ")] = fault{1500 * time.Millisecond, func(t *testing.T, s *redistest.Server, held relock.Locker) {
			paused := kit.Async(func() error { _, err := s.Do(pause...); return err })
			kit.WatchLoss(t, held)
			require.NoError(t, kit.Receive(t, paused, "the pause"))
		}}
	}
	kit.EachKind(t, func(t *testing.T, k *kit.LockKind) {
		for what, fault := range faults {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t, append([]string{"--key-load-delay", "200"}, kit.EveryWrite...)...)
				client, counter := kit.NewClient(t, server), kit.NewClient(t, redistest.Start(t))
				var sessions []*relock.Session
				for range 3 {
					sessions = append(sessions, kit.NewSession(t, server, relock.WithLease(fault.lease)))
				}
				held := k.Holder(sessions[0])
				kit.Lock(t, kit.Background, held)
				done := kit.Async(func() error {
					return kit.Together(waiters, func(i int) error {
						l := k.Of(sessions[i%3])
						if err := l.Lock(kit.Background); err != nil {
							return err
						}
						var err error
						if k.Exclusive() {
							err = kit.Bump(kit.Background, counter, "count")
						}
						return errors.Join(err, kit.LostOrNil(l.Unlock(kit.Background)))
					})
				})
				redistest.Eventually(t, kit.Soon, "somebody to queue", func() bool {
					return kit.Exists(t, client, "relock_queue:{lock}") || kit.Exists(t, client, "relock_rwqueue:{lock}")
				})
				fault.do(t, server, held)
				_ = held.Unlock(kit.Background) // may have been lost
				require.NoError(t, kit.Receive(t, done, "everybody to have been in"))
				if k.Exclusive() && fault.lease != time.Second { // else the data may be lost under a holder
					require.Equal(t, waiters, kit.Counted(t, counter, "count"))
				}
				redistest.Eventually(t, kit.Soon, "the lock to be free", func() bool { return !kit.Exists(t, client, "lock") })
				for _, s := range sessions {
					l := k.Of(s)
					kit.Lock(t, kit.Background, l)
					kit.Unlock(t, kit.Background, l)
				}
			})
		}
	})
}
