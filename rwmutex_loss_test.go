package relock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
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
		holds = []rwHold{{s.RWMutex("lock"), s.NewContext(background)}}
	} else {
		shared, owner := s.RWMutex("lock").RLocker(), s.NewContext(background)
		holds = []rwHold{
			{shared, background}, {shared, background}, {s.RWMutex("lock").RLocker(), background},
			{s.RWMutex("lock").RLocker(), owner}, {s.RWMutex("lock").RLocker(), owner},
		}
	}
	for _, h := range holds {
		lock(t, h.ctx, h)
	}
	return holds
}

// allLost checks that each hold was lost, and that each unlock says so once.
func allLost(t testing.TB, holds []rwHold) {
	t.Helper()
	for _, h := range holds {
		receive(t, h.Done(), "a holder to be told")
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
func TestRWMutexForceUnlockTellsEveryHolderAtOnce(t *testing.T) {
	eachPair(t, func(t *testing.T, holder, next side) {
		onBoth(t, func(t *testing.T, at addressed) {
			s, other := newSession(t, at), newSession(t, at)
			for _, by := range []*relock.Session{other, s} {
				holds := holdSide(t, s, holder)
				if holder == reading {
					holds = append(holds, holdSide(t, other, reading)...)
				}
				m := next.of(other.RWMutex("lock"))
				got := async(func() error { return m.Lock(background) })
				was, err := by.ForceUnlock(background, "lock")
				require.NoError(t, err)
				require.True(t, was)
				require.NoError(t, receive(t, got, "who waits to get in at once"))
				start := time.Now()
				allLost(t, holds)
				require.Less(t, time.Since(start), quickly)
				require.NoError(t, m.Err(), "the next one's hold stays")
				require.Len(t, holdersOf(t, s, "lock"), 1)
				unlock(t, background, m)
				was, err = by.ForceUnlock(background, "lock")
				require.NoError(t, err)
				require.False(t, was)
			}
			mustBeQuiet(t, newClient(t, at), "lock", s, other)
		})
	})
}

// Whatever somebody does to the keys behind a holder's back, the next renewal finds
// out, and touches nothing that is not the holder's.
func TestRWMutexHoldThatIsGoneIsLostAtTheNextRenewal(t *testing.T) {
	const lease = 2 * time.Second
	do := func(t *testing.T, c rueidis.Client, args ...string) {
		t.Helper()
		require.NoError(t, c.Do(background, c.B().Arbitrary(args...).Build()).Error())
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
				s, client := newSession(t, server, relock.WithWatchdog(lease)), newClient(t, server)
				bystander := holder.of(s.RWMutex("bystander"))
				lock(t, background, bystander)
				holds := holdSide(t, s, holder)
				harm(t, client)
				allLost(t, holds)
				if what == "flushed" {
					receive(t, bystander.Done(), "the bystander to be told")
				} else {
					require.NoError(t, bystander.Err(), "in the same batch, and unharmed")
				}
				switch what {
				case "deleted", "flushed":
					m := other.of(s.RWMutex("lock"))
					lock(t, background, m)
					unlock(t, background, m)
				case "another type":
					text, err := client.Do(background, client.B().Get().Key("lock").Build()).ToString()
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
		onBoth(t, func(t *testing.T, at addressed) {
			s, client := newSession(t, at), newClient(t, at)
			l := holder.of(s.RWMutex("lock"))
			lock(t, background, l)
			require.NoError(t, client.Do(background, client.B().Del().Key("lock").Build()).Error())
			require.NoError(t, l.Err(), "not known yet")
			require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
			require.ErrorIs(t, l.Unlock(background), relock.ErrNotHeld)
			m := other.of(s.RWMutex("lock"))
			lock(t, background, m)
			unlock(t, background, m)
		})
	})
}

// Redis cannot be reached, in every way there is, for longer than a lease: the holders
// are told while it lasts. When it is over, the other side gets in, and a late unlock
// disturbs nobody.
func TestRWMutexLossIsToldWhateverHappensToRedis(t *testing.T) {
	const lease = time.Second
	eachOutage(t, func(t *testing.T, server *redistest.Server, proxy *redistest.Proxy, begin, heal func()) {
		reads, writes := newSession(t, proxy, relock.WithWatchdog(lease)), newSession(t, proxy, relock.WithWatchdog(lease))
		next := newSession(t, server)
		readers := holdSide(t, reads, reading)
		w, inside := writes.RWMutex("other"), make(chan struct{})
		var cause error
		result := async(func() error {
			return relock.Do(background, w, func(ctx context.Context) error {
				close(inside)
				<-ctx.Done()
				cause = context.Cause(ctx)
				return nil
			})
		})
		receive(t, inside, "the write lock")
		token := w.FencingToken()
		begin()
		began := time.Now()
		for _, h := range readers {
			receive(t, h.Done(), "a reader to be told while Redis is out of reach")
			require.ErrorIs(t, h.Err(), relock.ErrLost)
		}
		require.ErrorIs(t, receive(t, result, "the writer to be told"), relock.ErrLost)
		require.ErrorIs(t, cause, relock.ErrLost)
		require.Less(t, time.Since(began), lease+quickly)
		heal()

		m := next.RWMutex("lock")
		lock(t, background, m)
		mine := holdersOf(t, next, "lock")
		allLost(t, readers)
		require.ErrorIs(t, w.Unlock(background), relock.ErrNotHeld, "Do has unlocked")
		redistest.Eventually(t, soon, "an answer of Redis", func() bool {
			ok, err := reads.RWMutex("lock").TryRLock(background)
			require.False(t, ok)
			return err == nil
		})
		require.Equal(t, mine, holdersOf(t, next, "lock"))
		require.NoError(t, m.Err())
		unlock(t, background, m)
		m = next.RWMutex("other")
		lock(t, background, m)
		require.Greater(t, m.FencingToken(), token)
		unlock(t, background, m)
		again := holdSide(t, reads, reading)
		for _, h := range again {
			unlock(t, h.ctx, h)
		}
	})
}

// What the session knows of its holds, it tells from both sides.
func TestRWMutexInspect(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		const lease = 30 * time.Second
		s, other := newSession(t, at, relock.WithWatchdog(lease)), newSession(t, at)
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
		rw, owner := s.RWMutex("lock"), s.NewContext(background)
		check(relock.Unlocked)
		lock(t, owner, rw)
		check(relock.Exclusive, s)
		lock(t, owner, rw)
		check(relock.Exclusive, s)
		lock(t, owner, rw.RLocker())
		check(relock.Exclusive, s, s)
		unlock(t, owner, rw)
		unlock(t, owner, rw)
		check(relock.Shared, s)
		lock(t, background, s.RWMutex("lock").RLocker())
		check(relock.Shared, s)
		r := other.RWMutex("lock").RLocker()
		lock(t, background, r)
		check(relock.Shared, s, other)
		unlock(t, owner, rw.RLocker())
		unlock(t, background, r)
		check(relock.Shared, s)
	})
}
