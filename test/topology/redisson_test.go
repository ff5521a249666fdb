package topology_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// releasing is a way to free a lock, and what Redisson's waiters must hear of it on their channel. If somebody of relock
// waits, who has come first, they hear when that one has had the lock, or when it is forced open.
type releasing struct {
	what, channel, message, later string
	held, waiter                  func(p party, name string) relock.Locker
	free                          func(t testing.TB, ctx context.Context, s *relock.Session, l relock.Locker, name string)
}

var releases = []releasing{
	{"Mutex", "redisson_lock__channel:", "0", "0", mutexOf, mutexOf, unlock},
	{"FairMutex", "redisson_lock__channel:", "0", "0", fairOf, fairOf, unlock},
	{"forced Mutex", "redisson_lock__channel:", "0", "0", mutexOf, mutexOf, force},
	{"writer", "redisson_rwlock:", "1", "1", writerOf, writerOf, unlock},
	{"reader", "redisson_rwlock:", "0", "1", readerOf, writerOf, unlock},
	{"forced writer", "redisson_rwlock:", "1", "1", writerOf, writerOf, force},
	{"forced reader", "redisson_rwlock:", "1", "1", readerOf, writerOf, force},
	{"downgrade", "redisson_rwlock:", "1", "0", writerOf, readerOf, downgrade},
}

func unlock(t testing.TB, ctx context.Context, _ *relock.Session, l relock.Locker, _ string) {
	kit.Unlock(t, ctx, l)
}

func force(t testing.TB, ctx context.Context, s *relock.Session, _ relock.Locker, name string) {
	was, err := s.ForceUnlock(ctx, name)
	require.True(t, was && err == nil, "%v", err)
}

func downgrade(t testing.TB, ctx context.Context, _ *relock.Session, l relock.Locker, _ string) {
	reader := l.(*relock.RWMutex).RLocker()
	kit.Lock(t, ctx, reader)
	kit.Unlock(t, ctx, l)
	kit.Unlock(t, ctx, reader)
}

// Redisson's waiters listen to shards in a cluster that has them, and hear nothing else: where relock
// published otherwise they slept for the lease of a lock that was free. Without shards they listen at the node of
// the channel's slot, which is the lock's.
func TestRedissonsWaitersHearOfEveryRelease(t *testing.T) {
	t.Parallel()
	for _, d := range []deployment{replicated{redistest.Start(t)}, redistest.StartCluster(t, 3, 0)} {
		client := d.Client(t)
		listen := func(channel string) <-chan string {
			at, subscribe := client, client.B().Subscribe().Channel(channel).Build()
			switch c, ok := d.(*redistest.Cluster); {
			case ok && redistest.Has(t, redistest.ShardedPubSub):
				subscribe = client.B().Ssubscribe().Channel(channel).Build()
			case ok:
				at = c.NodeForKey(channel).Client(t)
			}
			return hear(t, at, subscribe)
		}
		s, other := kit.SessionOn(t, client), kit.SessionOn(t, d.Client(t))
		for _, r := range releases {
			for _, behind := range []bool{false, true} { // somebody waits behind the holder
				name := fmt.Sprint(r.what, behind)
				heard := listen(r.channel + "{" + name + "}")
				ctx, l := s.NewContext(kit.Background), r.held(party{s}, name)
				kit.Lock(t, ctx, l)
				var got <-chan error
				if behind {
					w := r.waiter(party{other}, name)
					got = kit.Async(func() error { return errors.Join(w.Lock(kit.Background), w.Unlock(kit.Background)) })
					kit.Waits(t, other, name)
					reachable(t, d, other, name)
				}
				r.free(t, ctx, s, l, name)
				message := r.message
				if behind {
					message = r.later
				}
				require.Equal(t, message, kit.Receive(t, heard, "the message of "+name), name)
				if message == "1" { // for a waiter that is about to sleep
					require.Equal(t, "00", kit.Receive(t, heard, "the second message of "+name))
				}
				if behind {
					require.NoError(t, kit.Receive(t, got, "the waiter for "+name))
				}
			}
		}
	}
}

// reachable waits until a session that waits for a lock hears of its grants: before that a release passes it over.
func reachable(t testing.TB, d deployment, s *relock.Session, name string) {
	t.Helper()
	c, ok := d.(*redistest.Cluster)
	if !ok || !redistest.Has(t, redistest.ShardedPubSub) {
		return
	}
	redistest.Eventually(t, kit.Soon, "the subscription for "+name, func() bool {
		return slices.Contains(c.NodeForKey(name).Channels(), "relock_grant:{"+name+"}:"+s.ID())
	})
}

// hear subscribes as Redisson's waiters do, and returns what they hear.
func hear(t testing.TB, c rueidis.Client, subscribe rueidis.Completed) <-chan string {
	t.Helper()
	ctx, cancel := context.WithCancel(kit.Background)
	t.Cleanup(cancel)
	ready, heard := make(chan struct{}), make(chan string, 100)
	hook := sync.OnceFunc(func() { close(ready) })
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) { hook() })
	go c.Receive(hooked, subscribe, func(m rueidis.PubSubMessage) { heard <- m.Message })
	kit.Receive(t, ready, "the subscription")
	return heard
}
