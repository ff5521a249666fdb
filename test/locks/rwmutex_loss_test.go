package locks_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A rwHold is one lock of a side, and the context to unlock it under.
type rwHold struct {
	relock.Locker
	ctx context.Context
}

// holdSide takes a side in one session: as a writer; or as readers through one value and
// through several, some with an owner, all of them on one hold in Redis.
func holdSide(t testing.TB, s *relock.Session, who side) (holds []rwHold) {
	t.Helper()
	if who == writing {
		holds = []rwHold{{s.RWMutex("lock"), s.NewContext(kit.Background)}}
	} else {
		shared, owner := s.RWMutex("lock").RLocker(), s.NewContext(kit.Background)
		holds = []rwHold{
			{shared, kit.Background}, {shared, kit.Background}, {s.RWMutex("lock").RLocker(), kit.Background},
			{s.RWMutex("lock").RLocker(), owner}, {s.RWMutex("lock").RLocker(), owner},
		}
	}
	for _, h := range holds {
		kit.Lock(t, h.ctx, h)
	}
	return holds
}

// allLost checks that each hold was lost, and that each unlock says so once.
func allLost(t testing.TB, holds []rwHold) {
	t.Helper()
	for _, h := range holds {
		kit.Receive(t, h.Done(), "a holder to be told")
	}
	for _, h := range holds {
		require.ErrorIs(t, h.Err(), relock.ErrLost)
	}
	for _, h := range holds {
		require.ErrorIs(t, h.Unlock(h.ctx), relock.ErrLost)
	}
	for _, h := range holds {
		require.ErrorIs(t, h.Unlock(h.ctx), relock.ErrNotHeld)
	}
}

// The watchdog would notice in ten seconds.
func TestRWMutexForceUnlockNotifiesEveryHolderAtOnce(t *testing.T) {
	eachPair(t, func(t *testing.T, holder, next side) {
		kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
			s, other := kit.NewSession(t, at), kit.NewSession(t, at)
			for _, by := range []*relock.Session{other, s} {
				holds := holdSide(t, s, holder)
				if holder == reading {
					holds = append(holds, holdSide(t, other, reading)...)
				}
				m := next.of(other.RWMutex("lock"))
				got := kit.Async(func() error { return m.Lock(kit.Background) })
				was, err := by.ForceUnlock(kit.Background, "lock")
				require.NoError(t, err)
				require.True(t, was)
				require.NoError(t, kit.Receive(t, got, "who waits to get in at once"))
				start := time.Now()
				allLost(t, holds)
				require.Less(t, time.Since(start), kit.Quickly)
				require.NoError(t, m.Err(), "the next one's hold stays")
				require.Len(t, kit.HoldersOf(t, s, "lock"), 1)
				kit.Unlock(t, kit.Background, m)
				was, err = by.ForceUnlock(kit.Background, "lock")
				require.NoError(t, err)
				require.False(t, was)
			}
			mustBeQuiet(t, kit.NewClient(t, at), "lock", s, other)
		})
	})
}

// Whatever somebody does to the keys behind a holder's back, the next renewal finds
// out, and touches nothing that is not the holder's.
func TestRWMutexHoldThatIsGoneIsLostAtTheNextRenewal(t *testing.T) {
	const lease = 2 * time.Second
	do := func(t *testing.T, c rueidis.Client, args ...string) {
		t.Helper()
		require.NoError(t, c.Do(kit.Background, c.B().Arbitrary(args...).Build()).Error())
	}
	harm := map[string]func(t *testing.T, c rueidis.Client){
		"deleted": func(t *testing.T, c rueidis.Client) { do(t, c, "DEL", "lock") },
		"flushed": func(t *testing.T, c rueidis.Client) { do(t, c, "FLUSHALL") },
		"another reader's": func(t *testing.T, c rueidis.Client) {
			do(t, c, "DEL", "lock")
			do(t, c, "HSET", "lock", "mode", "read", "someone:1", "1")
			do(t, c, "PEXPIRE", "lock", "600000")
		},
		"another writer's": func(t *testing.T, c rueidis.Client) {
			do(t, c, "DEL", "lock")
			do(t, c, "HSET", "lock", "mode", "write", "someone:1:write", "1")
			do(t, c, "PEXPIRE", "lock", "600000")
		},
		"another type": func(t *testing.T, c rueidis.Client) {
			do(t, c, "SET", "lock", "text", "PX", "600000")
		},
	}
	for what, harm := range harm {
		t.Run(what, func(t *testing.T) {
			eachSide(t, func(t *testing.T, holder, other side) {
				server := redistest.Start(t)
				s, client := kit.NewSession(t, server, relock.WithLease(lease)), kit.NewClient(t, server)
				bystander := holder.of(s.RWMutex("bystander"))
				kit.Lock(t, kit.Background, bystander)
				holds := holdSide(t, s, holder)
				harm(t, client)
				allLost(t, holds)
				if what == "flushed" {
					kit.Receive(t, bystander.Done(), "the bystander to be told")
				} else {
					require.NoError(t, bystander.Err(), "in the same batch, and unharmed")
				}
				switch what {
				case "deleted", "flushed":
					m := other.of(s.RWMutex("lock"))
					kit.Lock(t, kit.Background, m)
					kit.Unlock(t, kit.Background, m)
				case "another type":
					text, err := client.Do(kit.Background, client.B().Get().Key("lock").Build()).ToString()
					require.NoError(t, err)
					require.Equal(t, "text", text)
					fallthrough
				default:
					require.Greater(t, pttl(t, client, "lock"), time.Minute, "nobody else's time to live changes")
				}
			})
		})
	}
}

// Before the watchdog has noticed, the unlock of the last one does.
func TestRWMutexUnlockOfAHoldThatIsGoneIsALoss(t *testing.T) {
	eachSide(t, func(t *testing.T, holder, other side) {
		kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
			s, client := kit.NewSession(t, at), kit.NewClient(t, at)
			l := holder.of(s.RWMutex("lock"))
			kit.Lock(t, kit.Background, l)
			require.NoError(t, client.Do(kit.Background, client.B().Del().Key("lock").Build()).Error())
			require.NoError(t, l.Err(), "not known yet")
			require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrLost)
			require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrNotHeld)
			m := other.of(s.RWMutex("lock"))
			kit.Lock(t, kit.Background, m)
			kit.Unlock(t, kit.Background, m)
		})
	})
}

// Redis cannot be reached, in every way there is, for longer than a lease: the holders
// are told while it lasts. When it is over, the other side gets in, and a late unlock
// disturbs nobody.
func TestRWMutexLossIsReportedWhateverHappensToRedis(t *testing.T) {
	const lease = time.Second
	kit.EachOutage(t, func(t *testing.T, server *redistest.Server, proxy *redistest.Proxy, begin, heal func()) {
		reads, writes := kit.NewSession(t, proxy, relock.WithLease(lease)), kit.NewSession(t, proxy, relock.WithLease(lease))
		next := kit.NewSession(t, server)
		readers := holdSide(t, reads, reading)
		w, inside := writes.RWMutex("other"), make(chan struct{})
		var cause error
		result := kit.Async(func() error {
			return relock.Do(kit.Background, w, func(ctx context.Context) error {
				close(inside)
				<-ctx.Done()
				cause = context.Cause(ctx)
				return nil
			})
		})
		kit.Receive(t, inside, "the write lock")
		token := w.FencingToken()
		begin()
		began := time.Now()
		for _, h := range readers {
			kit.Receive(t, h.Done(), "a reader to be told while Redis is out of reach")
			require.ErrorIs(t, h.Err(), relock.ErrLost)
		}
		require.ErrorIs(t, kit.Receive(t, result, "the writer to be told"), relock.ErrLost)
		require.ErrorIs(t, cause, relock.ErrLost)
		require.Less(t, time.Since(began), lease+kit.Quickly)
		heal()

		m := next.RWMutex("lock")
		kit.Lock(t, kit.Background, m)
		mine := kit.HoldersOf(t, next, "lock")
		allLost(t, readers)
		require.ErrorIs(t, w.Unlock(kit.Background), relock.ErrNotHeld, "Do has unlocked")
		redistest.Eventually(t, kit.Soon, "an answer of Redis", func() bool {
			ok, err := reads.RWMutex("lock").TryRLock(kit.Background)
			require.False(t, ok)
			return err == nil
		})
		require.Equal(t, mine, kit.HoldersOf(t, next, "lock"))
		require.NoError(t, m.Err())
		kit.Unlock(t, kit.Background, m)
		m = next.RWMutex("other")
		kit.Lock(t, kit.Background, m)
		require.Greater(t, m.FencingToken(), token)
		kit.Unlock(t, kit.Background, m)
		again := holdSide(t, reads, reading)
		for _, h := range again {
			kit.Unlock(t, h.ctx, h)
		}
	})
}

// What the session knows of its holds, it tells from both sides.
func TestRWMutexInspect(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		const lease = 30 * time.Second
		s, other := kit.NewSession(t, at, relock.WithLease(lease)), kit.NewSession(t, at)
		check := func(mode relock.Mode, sessions ...*relock.Session) {
			t.Helper()
			state := inspect(t, other, "lock")
			require.Equal(t, mode, state.Mode)
			require.Len(t, state.Holders, len(sessions))
			for _, want := range sessions {
				found := 0
				for _, h := range state.Holders {
					require.Equal(t, 1, h.Count)
					require.Contains(t, h.ID, h.Session+":")
					if h.Session == want.ID() {
						found++
					}
				}
				require.Positive(t, found)
			}
			require.Zero(t, state.Waiters)
			if mode != relock.Unlocked {
				require.Greater(t, state.TTL, lease/2)
				require.LessOrEqual(t, state.TTL, lease)
			}
		}
		rw, owner := s.RWMutex("lock"), s.NewContext(kit.Background)
		check(relock.Unlocked)
		kit.Lock(t, owner, rw)
		check(relock.Exclusive, s)
		kit.Lock(t, owner, rw)
		check(relock.Exclusive, s)
		kit.Lock(t, owner, rw.RLocker())
		check(relock.Exclusive, s, s)
		kit.Unlock(t, owner, rw)
		kit.Unlock(t, owner, rw)
		check(relock.Shared, s)
		kit.Lock(t, kit.Background, s.RWMutex("lock").RLocker())
		check(relock.Shared, s)
		r := other.RWMutex("lock").RLocker()
		kit.Lock(t, kit.Background, r)
		check(relock.Shared, s, other)
		kit.Unlock(t, owner, rw.RLocker())
		kit.Unlock(t, kit.Background, r)
		check(relock.Shared, s)
	})
}
