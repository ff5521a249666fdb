package topology_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A release frees a lock while it is held, and may have another session wait for it before.
type release func(t testing.TB, s *relock.Session, name string, wait func())

type releasing struct {
	what, channel, message string // and what Redisson's waiters must hear of it on their channel
	free                   release
	waiter                 func(p party, name string) relock.Locker
}

// releases are those of all kinds.
var releases = []releasing{
	{"Mutex", "redisson_lock__channel:", "0", unlocked(mutexOf), mutexOf},
	{"FairMutex", "redisson_lock__channel:", "0", unlocked(fairOf), fairOf},
	{"forced Mutex", "redisson_lock__channel:", "0", forced(mutexOf), nil}, // goes to relock's waiter
	{"writer", "redisson_rwlock:", "1", unlocked(writerOf), writerOf},
	{"reader", "redisson_rwlock:", "0", unlocked(readerOf), writerOf},
	{"forced writer", "redisson_rwlock:", "1", forced(writerOf), nil},
	{"forced reader", "redisson_rwlock:", "1", forced(readerOf), nil},
	{"downgrade", "redisson_rwlock:", "1", func(t testing.TB, s *relock.Session, name string, wait func()) {
		ctx, rw := s.NewContext(kit.Background), s.RWMutex(name)
		kit.Lock(t, ctx, rw)
		kit.Lock(t, ctx, rw.RLocker())
		wait()
		kit.Unlock(t, ctx, rw)
		kit.Unlock(t, ctx, rw.RLocker())
	}, readerOf},
}

func unlocked(lock func(party, string) relock.Locker) release {
	return func(t testing.TB, s *relock.Session, name string, wait func()) {
		l := lock(party{s}, name)
		kit.Lock(t, kit.Background, l)
		wait()
		kit.Unlock(t, kit.Background, l)
	}
}

func forced(lock func(party, string) relock.Locker) release {
	return func(t testing.TB, s *relock.Session, name string, _ func()) {
		kit.Lock(t, kit.Background, lock(party{s}, name))
		was, err := s.ForceUnlock(kit.Background, name)
		require.True(t, was && err == nil, "%v", err)
	}
}

// Redisson's waiters listen to shards in a cluster that has them, and hear nothing else: where relock
// published otherwise they slept for the lease of a lock that was free.
func TestRedissonsWaitersHearOfEveryRelease(t *testing.T) {
	t.Parallel()
	for what, d := range map[string]deployment{
		"one server": replicated{redistest.Start(t)}, "a cluster": redistest.StartCluster(t, 3, 0),
	} {
		client := d.Client(t)
		subscribe := func(channel string) rueidis.Completed { return client.B().Subscribe().Channel(channel).Build() }
		if what == "a cluster" && redistest.Has(t, redistest.ShardedPubSub) {
			subscribe = func(channel string) rueidis.Completed { return client.B().Ssubscribe().Channel(channel).Build() }
		}
		a, b := kit.SessionOn(t, client), kit.SessionOn(t, d.Client(t))
		for _, r := range releases {
			r.hears(t, client, subscribe, a, r.what, func() {})
			if r.waiter == nil {
				continue
			}
			behind, name := make(<-chan error), r.what+" behind"
			r.hears(t, client, subscribe, a, name, func() {
				w := r.waiter(party{b}, name)
				behind = kit.Async(func() error { return errors.Join(w.Lock(kit.Background), w.Unlock(kit.Background)) })
				redistest.Eventually(t, kit.Soon, "somebody to wait for "+name, func() bool { return peek.Engine(b).Waits(name) })
			})
			require.NoError(t, kit.Receive(t, behind, "the waiter for "+name))
		}
	}
}

// hears subscribes as Redisson's waiters do, frees the lock, and checks what they hear.
func (r releasing) hears(t testing.TB, c rueidis.Client, subscribe func(string) rueidis.Completed,
	s *relock.Session, name string, wait func(),
) {
	t.Helper()
	ctx, cancel := context.WithCancel(kit.Background)
	ready, heard := make(chan struct{}), make(chan string, 100)
	hook := sync.OnceFunc(func() { close(ready) })
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) { hook() })
	end := kit.Async(func() error {
		return c.Receive(hooked, subscribe(r.channel+"{"+name+"}"), func(m rueidis.PubSubMessage) { heard <- m.Message })
	})
	kit.Receive(t, ready, "the subscription for "+name)
	r.free(t, s, name, wait)
	require.Equal(t, r.message, kit.Receive(t, heard, "the message of "+name))
	if r.message == "1" { // for a waiter that is about to sleep
		require.Equal(t, "00", kit.Receive(t, heard, "the second message of "+name))
	}
	cancel()
	<-end
}
