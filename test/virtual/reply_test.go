package virtual_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
)

// loseReply lets Redis execute the next command of p on each server, and loses the reply.
func (p *process) loseReply() { p.networks(func(n *memredis.Process) { n.DropReplies(1) }) }

func TestLostReplyToAnAcquireNeitherDoublesNorLeavesTheHold(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		for range 5 {
			p.loseReply()
			l := p.held()
			fields := w.fields()
			require.Len(t, fields, 1+map[bool]int{true: 1}[w.readWrite()], "one hold, and the mode of an RWMutex")
			ok, err := other.opposite().TryLock(background)
			require.NoError(t, err)
			require.False(t, ok)
			require.NoError(t, l.Unlock(background))
			next := other.opposite()
			require.NoError(t, next.Lock(background))
			time.Sleep(5 * time.Second) // what the process does about the lost reply goes on
			require.NoError(t, next.Err())
			require.NoError(t, next.Unlock(background))
			time.Sleep(time.Second)

			p.loseReply()
			if ok, err := p.lock().TryLock(background); w.typ.redis == 1 {
				require.False(t, ok)
				require.Error(t, err)
			}
			time.Sleep(5 * time.Second)
			require.True(t, w.free())
		}
	})
}

func TestLostReplyToAReleaseEndsOneHoldOnly(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		for range 5 {
			l, next := p.held(), other.opposite()
			got := make(chan error, 1)
			go func() { got <- next.Lock(background) }()
			time.Sleep(time.Second)
			p.loseReply()
			require.NoError(t, l.Unlock(background))
			require.NoError(t, <-got)
			time.Sleep(5 * time.Second)
			require.NoError(t, next.Err())
			require.ErrorIs(t, l.Unlock(background), relock.ErrNotHeld)
			require.NoError(t, next.Unlock(background))
			time.Sleep(time.Second)
			require.True(t, w.free())
		}
	})
}
