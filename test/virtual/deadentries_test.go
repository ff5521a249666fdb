package virtual_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
)

// Thousands of entries of a dead session before a live waiter, and one behind it: the waiter gets
// the lock within two seconds of its release, in its turn.

// deadSession is the beginning of hold ids of a session that nobody hears.
const deadSession = "12345678-0000-8000-8000-000000000000:"

// buries puts n dead entries before all others of a queue, and one behind them. suffix ends an
// entry.
func (w *world) buries(queue string, n int, suffix string) {
	const fill = "for n = 1, tonumber(ARGV[2]) do redis.call('zadd', KEYS[1], n, ARGV[1] .. n .. ARGV[3]) end return 1"
	w.do("EVAL", fill, "1", queue, deadSession, fmt.Sprint(n), suffix)
	w.do("ZADD", queue, "9000000000000000", deadSession+"77777"+suffix)
}

func TestLiveWaiterBehindThousandsOfDeadOnes(t *testing.T) {
	read, write := "relock_rdqueue:{a}", "relock_rwqueue:{a}"
	for name, c := range map[string]struct {
		holds, waits *lockType
		queues       map[string]string // with the ends of their entries
		entries      int
	}{
		"fair":   {fair, fair, map[string]string{"relock_queue:{a}": ""}, 5000},
		"writer": {writer, writer, map[string]string{write: ":write", read: ""}, 15000},
		"reader": {writer, reader, map[string]string{write: ":write", read: ""}, 15000},
	} {
		t.Run(name, func(t *testing.T) {
			alone(t, c.holds, func(t *testing.T, w *world) {
				holder, waiter := w.process(), w.process()
				held := holder.held()
				w.typ = c.waits
				got := begin(background, waiter.lock())
				time.Sleep(100 * time.Millisecond)
				for queue, suffix := range c.queues {
					w.buries(queue, c.entries, suffix)
				}
				start := time.Now()
				require.NoError(t, held.Unlock(background))
				require.NoError(t, <-got)
				require.Less(t, time.Since(start), 2*time.Second)
			})
		})
	}
}

// permitsOfTwo takes the two permits of a semaphore, and has a third process wait behind thousands
// of dead entries.
func (w *world) permitsOfTwo(t *testing.T) (held []*relock.Semaphore, got <-chan error) {
	for range 2 {
		s := w.process().s[0].Semaphore("a", 2)
		require.NoError(t, s.Lock(background))
		held = append(held, s)
	}
	got = begin(background, w.process().s[0].Semaphore("a", 2))
	time.Sleep(100 * time.Millisecond)
	w.buries("relock_queue:{a}", 5000, " 2 5000")
	return held, got
}

func TestLiveWaiterForAPermitBehindThousandsOfDeadOnes(t *testing.T) {
	alone(t, semaphore, func(t *testing.T, w *world) {
		held, got := w.permitsOfTwo(t)
		start := time.Now()
		require.NoError(t, held[1].Unlock(background))
		require.NoError(t, <-got)
		require.Less(t, time.Since(start), 2*time.Second)
	})
}

// The queue of a semaphore has been removed as a whole, while a live waiter polls: a later caller
// does not pass it.
func TestWaiterForAPermitKeepsItsTurnAsTheDeadAreRemoved(t *testing.T) {
	alone(t, semaphore, func(t *testing.T, w *world) {
		held, got := w.permitsOfTwo(t)
		late := w.process()
		require.NoError(t, held[1].Unlock(background))
		for w.has("relock_queue:{a}") {
			require.Empty(t, got)
			time.Sleep(time.Millisecond)
		}
		passed, err := late.s[0].Semaphore("a", 2).TryLock(background)
		require.NoError(t, err)
		require.False(t, passed, "it has passed one that waits")
		require.NoError(t, <-got)
	})
}

// A process is killed with many readers queued. The reader behind them must not believe that it has
// a lock that is free.
func TestReaderBehindManyDeadReaders(t *testing.T) {
	for _, how := range []string{"release", "lease runs out", "TryLock", "newcomer"} {
		t.Run(how, func(t *testing.T) {
			alone(t, writer, func(t *testing.T, w *world) { readerBehindDeadReaders(t, w, how) })
		})
	}
}

func readerBehindDeadReaders(t *testing.T, w *world, how string) {
	holder, dead, live, third := w.process(), w.process(), w.process(), w.process()
	held := holder.held(relock.WithLease(lease))
	w.typ = reader
	for range 1100 { // more than one script removes
		go func() { _ = dead.lock(relock.WithLease(20 * time.Second)).Lock(background) }()
	}
	time.Sleep(100 * time.Millisecond)
	synctest.Wait()
	l := live.lock()
	var got <-chan error
	if how == "release" || how == "lease runs out" {
		got = begin(background, l)
		time.Sleep(time.Second)
	}
	dead.die(false)
	time.Sleep(10 * time.Millisecond)
	synctest.Wait()
	if how == "release" {
		require.NoError(t, held.Unlock(background))
	} else {
		holder.die(true)
		time.Sleep(9 * time.Second) // the queue lives for 15 s, and the lock a lease
		w.do("PEXPIRE", "a", "1")
		time.Sleep(2 * time.Millisecond)
	}
	switch how {
	case "TryLock":
		ok, err := l.TryLock(background)
		require.NoError(t, err)
		if !ok {
			return
		}
	case "newcomer":
		require.NoError(t, l.Lock(background))
	default:
		require.NoError(t, <-got)
	}
	require.False(t, w.free(), "the reader believes that it has the lock, which is free")
	w.typ = writer
	ok, err := third.lock().TryLock(background)
	require.NoError(t, err)
	require.NoError(t, l.Err())
	require.False(t, ok, "a writer has the lock beside the reader")
}

// The only other waiter is frozen, and its queue is about to expire. A live one queues: its entry
// stays until its first poll, so that a release grants it the lock, and nobody passes it.
func TestQueueOutlivesTheFirstPollOfALiveWaiter(t *testing.T) {
	for queue, types := range map[string][]*lockType{
		"relock_queue:{a}": {&lockTypes[0], fair, semaphore}, "relock_rwqueue:{a}": {writer},
	} {
		for _, typ := range types {
			t.Run(typ.name, func(t *testing.T) {
				alone(t, typ, func(t *testing.T, w *world) {
					holder, frozen, live, third := w.process(), w.process(), w.process(), w.process()
					held := holder.held()
					begin(background, frozen.lock())
					time.Sleep(10 * time.Second)
					frozen.partition()
					for w.left(queue) > 150*time.Millisecond {
						time.Sleep(10 * time.Millisecond)
					}
					got := begin(background, live.lock())
					time.Sleep(200 * time.Millisecond)
					require.NoError(t, held.Unlock(background))
					passed, err := third.lock().TryLock(background)
					require.NoError(t, err)
					require.False(t, passed, "it has passed one that waits")
					require.NoError(t, <-got)
				})
			})
		}
	}
}

// left returns the time to live of a key.
func (w *world) left(key string) time.Duration {
	ttl, _ := memredis.Of(w.redis[0], w.redis[0].Session()).Server().TTL(key)
	return ttl
}
