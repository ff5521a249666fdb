package virtual_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
)

// A handoffTrouble befalls one of the two processes of a handoff, or the server.
type handoffTrouble struct {
	works    bool // both calls succeed all the same
	excludes bool // there is one holder at a time, with the larger token
	prolongs bool // what has a lease keeps it for much longer
	begin    func(w *world, p *process, cancel context.CancelFunc)
}

// What befalls a process or the server at any moment of a handoff: who waits has the lock only after it, one at a time
// is certain of it, a ticket works once, and nothing is left.
func TestTroubleAtEveryMomentOfAHandoff(t *testing.T) {
	onNetwork := func(f func(n *memredis.Process)) func(*world, *process, context.CancelFunc) {
		return func(_ *world, p *process, _ context.CancelFunc) { p.networks(f) }
	}
	cut := func(d time.Duration, to ...memredis.Direction) func(*world, *process, context.CancelFunc) {
		return onNetwork(func(n *memredis.Process) { time.AfterFunc(d, n.Cut(to...)) })
	}
	step := func(d time.Duration) func(*world, *process, context.CancelFunc) {
		return onNetwork(func(n *memredis.Process) { n.Server().StepClock(d) })
	}
	closed := func(ctx context.Context) func(*world, *process, context.CancelFunc) {
		return func(_ *world, p *process, _ context.CancelFunc) { go p.s[0].Close(ctx) }
	}
	ended, cancel := context.WithCancel(background)
	cancel()
	const yes, no = true, false
	for what, c := range map[string]handoffTrouble{
		"lost reply":   {yes, yes, no, onNetwork(func(n *memredis.Process) { n.DropReplies(1) })},
		"lost replies": {yes, yes, no, onNetwork(func(n *memredis.Process) { n.DropReplies(3) })},
		"break":        {yes, yes, no, onNetwork((*memredis.Process).Break)},
		"no messages":  {yes, yes, no, onNetwork(func(n *memredis.Process) { n.LoseMessage("granted ") })},
		"cut up":       {yes, yes, no, cut(time.Second, memredis.Up)},
		"cut down":     {yes, yes, no, cut(time.Second, memredis.Down)},
		"cut":          {yes, yes, no, cut(7 * time.Second)},
		"long cut":     {no, yes, no, cut(25 * time.Second)},
		"longest cut":  {no, yes, no, cut(2 * time.Minute)},
		"queue evicted": {yes, yes, no, func(w *world, _ *process, _ context.CancelFunc) {
			w.do("DEL", "relock_queue:{a}")
		}},
		"restart":     {yes, yes, no, func(w *world, _ *process, _ context.CancelFunc) { w.restart(true) }},
		"flush":       {no, no, no, func(w *world, _ *process, _ context.CancelFunc) { w.restart(false) }},
		"back a bit":  {yes, yes, no, step(-6 * time.Second)},
		"back":        {yes, yes, yes, step(-time.Hour)},
		"ahead a bit": {yes, yes, no, step(6 * time.Second)},
		"ahead":       {no, no, no, step(time.Hour)},
		"forced": {no, no, no, func(_ *world, p *process, _ context.CancelFunc) {
			go p.s[0].ForceUnlock(background, "a")
		}},
		"fails": {yes, yes, no, onNetwork(func(n *memredis.Process) {
			time.AfterFunc(300*time.Millisecond, n.Server().FailScripts("LOADING Redis is loading"))
		})},
		"canceled": {no, yes, no, func(_ *world, _ *process, cancel context.CancelFunc) { cancel() }},
		"canceled, cut": {no, yes, no, func(w *world, p *process, cancel context.CancelFunc) {
			cancel()
			cut(7*time.Second)(w, p, nil)
		}},
		"cut, canceled": {no, yes, no, func(w *world, p *process, cancel context.CancelFunc) {
			cut(50*time.Second)(w, p, nil)
			time.AfterFunc(time.Second, cancel)
		}},
		"closed":         {no, yes, no, closed(background)},
		"closed at once": {no, yes, no, closed(ended)},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			for who, name := range []string{"giver", "taker"} {
				for at := time.Duration(who) * 2 * time.Millisecond; at < 20*time.Millisecond; at += 4 * time.Millisecond {
					t.Run(fmt.Sprint(name, " ", at), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { c.befalls(t, newWorld(t, &lockTypes[0]), who, at) })
					})
				}
			}
		})
	}
}

func (c *handoffTrouble) befalls(t *testing.T, w *world, who int, at time.Duration) {
	const d = 20 * time.Second
	ps := []*process{w.process(), w.process(), w.process()}
	victim := ps[who]
	for _, p := range ps[:2] {
		require.NoError(t, ps[1].adopts(p.handsOff(d)).Unlock(background)) // the server knows the script
		p.delay(3 * time.Millisecond)
	}
	m := ps[0].taken()
	token := m.Token()
	grows := func(next int64) {
		if c.excludes {
			assert.Greater(t, next, token)
			token = next
		}
	}
	waiters := []*relock.Mutex{ps[2].mutex(), ps[1].mutex()}
	waits := []<-chan error{begin(background, waiters[0]), begin(background, waiters[1])}
	time.Sleep(time.Second)

	var adopted atomic.Pointer[relock.Hold]
	for i := range 40 {
		time.AfterFunc(time.Duration(i)*time.Millisecond+time.Microsecond, func() {
			n := 0
			for _, l := range []ends{waiters[0], waiters[1], m, adopted.Load()} {
				if l.Err() == nil {
					n++
				}
			}
			if c.excludes {
				assert.LessOrEqual(t, n, 1, "certain holders")
			}
		})
	}
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	time.AfterFunc(at, func() { c.begin(w, victim, cancel) })
	ticket, err := m.Handoff(ctx, d)
	assert.Error(t, m.Err())
	if err == nil {
		time.Sleep(4 * time.Millisecond)
		var l, second *relock.Hold
		if l, err = ps[1].s[0].Adopt(ctx, ticket); err == nil {
			adopted.Store(l)
			grows(l.Token())
			assert.True(t, !c.excludes || len(waits[0]) == 0, "nobody comes in between")
		}
		second, again := ps[2].s[0].Adopt(background, ticket)
		assert.True(t, err != nil || again != nil, "a ticket works once")
		if again == nil {
			grows(second.Token())
			assert.NoError(t, second.Unlock(background))
		} else {
			assert.ErrorIs(t, again, relock.ErrLost)
		}
	}
	assert.True(t, !c.works || err == nil, "%v", err)
	if err == nil {
		time.Sleep(time.Second)
		_ = adopted.Load().Unlock(background)
	}

	for range waits {
		var err error
		i := 0
		select {
		case err = <-waits[0]:
		case err = <-waits[1]:
			i = 1
		case <-time.After(3*time.Minute + time.Hour): // the clock may have stepped back
			t.Fatal("who waits does not get the lock")
		}
		if waits[i] = nil; err != nil {
			assert.ErrorIs(t, err, relock.ErrClosed)
			continue
		}
		grows(waiters[i].FencingToken())
		_ = waiters[i].Unlock(background)
	}
	victim.heal()
	if time.Sleep(2 * time.Minute); c.prolongs {
		return
	}
	redis := w.redis[0].Client()
	keys, err := redis.Do(background, redis.B().Keys().Pattern("*").Build()).AsStrSlice()
	require.NoError(t, err)
	assert.Empty(t, slices.DeleteFunc(keys, func(k string) bool {
		return strings.HasPrefix(k, "relock_fence") || strings.HasPrefix(k, "relock_session")
	}))
}
