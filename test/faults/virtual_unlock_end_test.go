package faults_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/stretchr/testify/require"
)

const unlockMost = 2 * time.Second // that Unlock waits for Redis

// everyKind makes a lock of each kind from three sessions, each on a Redis of its own.
var everyKind = map[string]func(ss []*relock.Session, opts ...relock.LockOption) relock.Locker{
	"Mutex": func(ss []*relock.Session, opts ...relock.LockOption) relock.Locker {
		return ss[0].Mutex("lock", opts...)
	},
	"FairMutex": func(ss []*relock.Session, opts ...relock.LockOption) relock.Locker {
		return ss[0].FairMutex("lock", opts...)
	},
	"writer": func(ss []*relock.Session, opts ...relock.LockOption) relock.Locker {
		return ss[0].RWMutex("lock", opts...)
	},
	"reader": func(ss []*relock.Session, opts ...relock.LockOption) relock.Locker {
		return ss[0].RWMutex("lock", opts...).RLocker()
	},
	"Group": func(ss []*relock.Session, opts ...relock.LockOption) relock.Locker {
		return relock.NewGroup(ss[0].Mutex("lock", opts...), ss[0].Mutex("other", opts...), ss[0].Mutex("third", opts...))
	},
	"Group of any": func(ss []*relock.Session, opts ...relock.LockOption) relock.Locker {
		return relock.NewGroup(ss[0].FairMutex("lock", opts...), ss[1].RWMutex("other", opts...).RLocker(), ss[2].Mutex("third", opts...))
	},
	"Redlock": func(ss []*relock.Session, opts ...relock.LockOption) relock.Locker {
		return relock.NewRedlock(ss, "lock", opts...)
	},
}

// eachKindInBubble runs f for each kind of lock, on three networks in virtual time.
func eachKindInBubble(t *testing.T, f func(t *testing.T, ns []*network, ss []*relock.Session, of func([]*relock.Session, ...relock.LockOption) relock.Locker)) {
	t.Parallel()
	for name, of := range everyKind {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				var ns []*network
				var ss []*relock.Session
				for range 3 {
					n := newNetwork(t)
					ns, ss = append(ns, n), append(ss, n.session())
				}
				f(t, ns, ss, of)
			})
		})
	}
}

// freeAgain checks that a lock can be taken and leaves nothing.
func freeAgain(t *testing.T, ns []*network, l relock.Locker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(kit.Background, 20*time.Second) // less than the lease
	defer cancel()
	require.NoError(t, l.Lock(ctx))
	require.NoError(t, l.Err())
	require.NoError(t, l.Unlock(ctx))
	time.Sleep(time.Second)
	for _, n := range ns {
		for _, key := range []string{"lock", "other", "third"} {
			require.False(t, n.server.Exists(key), key)
		}
	}
}

// Unlock blocked until the lease had run out, and then returned ErrLost for a section that had
// been protected to its end.
func TestUnlockWaitsForAHungRedisForTwoSeconds(t *testing.T) {
	for _, background := range []bool{true, false} { // the synchronous and the pipelined path of rueidis
		t.Run(fmt.Sprint("background ", background), func(t *testing.T) {
			eachKindInBubble(t, func(t *testing.T, ns []*network, ss []*relock.Session, of func([]*relock.Session, ...relock.LockOption) relock.Locker) {
				ctx, cancel := kit.Background, func() {}
				if !background {
					ctx, cancel = context.WithCancel(ctx)
				}
				defer cancel()
				l := of(ss)
				require.NoError(t, l.Lock(ctx))
				for _, n := range ns {
					n.hang()
				}
				require.LessOrEqual(t, took(func() { require.NoError(t, l.Unlock(ctx)) }), unlockMost+time.Millisecond)
				require.ErrorIs(t, l.Err(), relock.ErrNotHeld)
				require.ErrorIs(t, l.Unlock(ctx), relock.ErrNotHeld)
				time.Sleep(3 * time.Second)
				for _, n := range ns {
					n.resume()
				}
				freeAgain(t, ns, l)
			})
		})
	}
}

func TestUnlockWaitsForARefusingRedisForTwoSeconds(t *testing.T) {
	eachKindInBubble(t, func(t *testing.T, ns []*network, ss []*relock.Session, of func([]*relock.Session, ...relock.LockOption) relock.Locker) {
		l := of(ss)
		require.NoError(t, l.Lock(kit.Background))
		for _, n := range ns {
			n.die()
		}
		require.LessOrEqual(t, took(func() { require.NoError(t, l.Unlock(kit.Background)) }), unlockMost+time.Millisecond)
		for _, n := range ns {
			n.resume()
		}
		freeAgain(t, ns, l)
	})
}

// The lease of a hold may end before Redis answers: it was certain when Unlock was called.
func TestUnlockOfALeaseThatEndsMeanwhile(t *testing.T) {
	eachKindInBubble(t, func(t *testing.T, ns []*network, ss []*relock.Session, of func([]*relock.Session, ...relock.LockOption) relock.Locker) {
		l := of(ss, relock.WithFixedLease(time.Second))
		require.NoError(t, l.Lock(kit.Background))
		time.Sleep(500 * time.Millisecond)
		for _, n := range ns {
			n.hang()
		}
		require.LessOrEqual(t, took(func() { require.NoError(t, l.Unlock(kit.Background)) }), unlockMost+time.Millisecond)
		time.Sleep(2 * time.Second)
		for _, n := range ns {
			n.resume()
		}
		freeAgain(t, ns, l)
		require.NoError(t, l.Lock(kit.Background))
		time.Sleep(time.Second)
		require.Zero(t, took(func() { require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrLost) }), "it had ended before")
	})
}

// A hold that Redis does not have any more was no protection.
func TestUnlockOfADeletedLockIsLost(t *testing.T) {
	eachKindInBubble(t, func(t *testing.T, ns []*network, ss []*relock.Session, of func([]*relock.Session, ...relock.LockOption) relock.Locker) {
		l := of(ss)
		require.NoError(t, l.Lock(kit.Background))
		for _, n := range ns {
			n.server.FlushAll()
		}
		require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrLost)
		freeAgain(t, ns, l)
	})
}
