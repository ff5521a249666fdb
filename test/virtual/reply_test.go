package virtual_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
)

// loseReply lets Redis execute the next command of p on each server, and loses the reply.
func (p *process) loseReply() { p.networks(func(n *memredis.Process) { n.DropReplies(1) }) }

// The reply to an acquire is lost, to the release that follows, and to a TryLock.
func TestLostReplyToAnAcquireNeitherDoublesNorLeavesTheHold(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		var used []string
		for range 5 {
			p.loseReply()
			l := p.held()
			if w.typ.redis > 1 {
				time.Sleep(lease / 10) // a server that has not confirmed it is asked again
			}
			ids := slices.DeleteFunc(w.fields(), func(field string) bool { return field == "mode" })
			require.Len(t, ids, 1, "one hold")
			require.NotContains(t, used, ids[0], "a release that comes late could end it")
			used = append(used, ids[0])
			next := other.opposite()
			got := locking(next)
			require.Empty(t, got)
			p.loseReply()
			require.NoError(t, l.Unlock(background))
			require.NoError(t, <-got)
			time.Sleep(5 * time.Second) // what the process does about the lost replies goes on
			require.NoError(t, next.Err(), "one hold is ended only")
			require.ErrorIs(t, l.Unlock(background), relock.ErrNotHeld)
			require.NoError(t, next.Unlock(background))
			time.Sleep(time.Second)
			require.True(t, w.free())

			p.loseReply()
			l = p.lock()
			ok, err := l.TryLock(background)
			if w.typ.redis == 1 {
				require.NoError(t, err, "it tries once more")
				require.True(t, ok)
			}
			if ok {
				require.NoError(t, l.Unlock(background))
			}
			time.Sleep(5 * time.Second)
			require.True(t, w.free())

			p.networks(func(n *memredis.Process) { n.DropReplies(2) }) // also of that
			if ok, _ := l.TryLock(background); ok {
				require.NoError(t, l.Unlock(background))
			}
			time.Sleep(5 * time.Second)
			require.True(t, w.free())
		}
	})
}

// A reply is lost at any time around those of a wait: the calls that find the lock taken, queue and
// poll, the grant, and what confirms it.
func TestLostReplyToAWaiterCostsNobodyTheLock(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p, holder := w.process(), w.process()
		const delay, wait = 20 * time.Millisecond, 300 * time.Millisecond
		p.delay(delay)
		for i := range 23 {
			held, l := holder.opposite(), p.lock()
			require.NoError(t, held.Lock(background))
			got := begin(background, l)
			lost := time.Duration(i) * 2 * delay // a round trip
			if lost >= 2*wait {                  // at a poll, or when the grant is confirmed
				lost = 2*wait + time.Duration(i-int(wait/delay))*time.Second
			}
			time.AfterFunc(lost, p.loseReply)
			time.Sleep(wait)
			most := w.slow() + 500*time.Millisecond
			if i%3 == 0 { // a poll finds it free
				w.del()
				most += claim
			} else {
				require.NoError(t, held.Unlock(background))
			}
			start := time.Now()
			require.NoError(t, <-got)
			require.LessOrEqual(t, time.Since(start), most)
			if w.typ.redis > 1 {
				time.Sleep(lease / 10) // a server that has not confirmed it is asked again
			}
			fields := w.fields()
			require.Len(t, fields, 1+map[bool]int{true: 1}[w.readWrite()], "one hold")
			time.Sleep(6 * time.Second) // a grant is confirmed in less
			require.NoError(t, l.Err())
			require.Equal(t, fields, w.fields())
			require.NoError(t, l.Unlock(background))
			time.Sleep(2 * time.Second)
			require.True(t, w.free())
			if i%3 == 0 {
				require.ErrorIs(t, held.Unlock(background), relock.ErrLost)
			}
			p.heal()
			p.delay(delay)
		}
	})
}

// The network delays a request until after the Unlock of what the same call got by a later one. A
// Group asks with the same ids again.
func TestRequestThatArrivesAfterTheUnlockLeavesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		const delay = 25 * time.Second // rueidis gives up a connection before that
		p.delay(delay)
		time.AfterFunc(time.Second, func() { p.delay(0) }) // but for what is under way
		start := time.Now()
		l := p.held()
		require.NoError(t, l.Unlock(background))
		require.True(t, time.Since(start) < delay || w.typ.redis > 1)
		time.Sleep(time.Until(start.Add(delay + lease + time.Second))) // what comes late ends with its lease
		require.True(t, w.free())
	})
}
