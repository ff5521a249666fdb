package virtual_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
)

// What befalls a process or the server at any moment of a hand-over: exclusion, progress, and nothing is left.
func TestTroubleAtEveryMomentOfAHandOver(t *testing.T) {
	onNetwork := func(f func(n *memredis.Process)) func(*world, *process) {
		return func(_ *world, p *process) { p.networks(f) }
	}
	onServer := func(f func(s *memredis.Server)) func(*world, *process) {
		return onNetwork(func(n *memredis.Process) { f(n.Server()) })
	}
	step := func(d time.Duration) func(*world, *process) {
		return onServer(func(s *memredis.Server) { s.StepClock(d) })
	}
	refuse := func(answer string) func(*world, *process) {
		return onServer(func(s *memredis.Server) { time.AfterFunc(300*time.Millisecond, s.FailScripts(answer)) })
	}
	const yes, no = true, false
	for what, c := range map[string]struct {
		excludes bool // whatever happens
		claims   time.Duration
		trouble  func(w *world, p *process)
	}{
		"lost reply":      {yes, 4, onNetwork(func(n *memredis.Process) { n.DropReplies(1) })},
		"lost replies":    {yes, 4, onNetwork(func(n *memredis.Process) { n.DropReplies(3) })},
		"break":           {yes, 4, onNetwork((*memredis.Process).Break)},
		"cut up":          {yes, 4, onNetwork(func(n *memredis.Process) { time.AfterFunc(time.Second, n.Cut(memredis.Up)) })},
		"cut down":        {yes, 4, onNetwork(func(n *memredis.Process) { time.AfterFunc(time.Second, n.Cut(memredis.Down)) })},
		"long cut":        {yes, 4, onNetwork(func(n *memredis.Process) { time.AfterFunc(7*time.Second, n.Cut()) })},
		"no messages":     {yes, 4, onNetwork(func(n *memredis.Process) { n.LoseMessage("granted ") })},
		"queue evicted":   {yes, 2, func(w *world, _ *process) { w.do("DEL", w.queue()) }},
		"readers evicted": {yes, 2, func(w *world, _ *process) { w.do("DEL", "relock_rdqueue:{a}") }},
		"fence evicted":   {yes, 2, func(w *world, _ *process) { w.do("DEL", "relock_fence:{a}") }},
		"restart":         {yes, 2, func(w *world, _ *process) { w.restart(true) }},
		"flush":           {no, 2, func(w *world, _ *process) { w.restart(false) }},
		"back a bit":      {yes, 2, step(-6 * time.Second)},
		"back":            {yes, 2, step(-time.Hour)},
		"ahead":           {no, 2, step(time.Hour)},
		"ahead a bit":     {no, 2, step(6 * time.Second)},
		"forced":          {no, 2, func(_ *world, p *process) { go p.s[0].ForceUnlock(background, "a") }},
		"fails":           {yes, 2, refuse("LOADING Redis is loading")},
		"read only":       {yes, 2, refuse("READONLY You can't write")},
	} {
		t.Run(what, func(t *testing.T) {
			eachExclusive(t, func(t *testing.T, w *world) {
				ps := []*process{w.process(relock.WithTenure(0)), w.process(), w.process()}
				for round := range 6 {
					ps[1].delay(3 * time.Millisecond)
					victim := ps[round%3]
					time.AfterFunc(time.Duration(round)*17*time.Millisecond, func() { c.trouble(w, victim) })
					var in, last atomic.Int64
					var wg sync.WaitGroup
					start := time.Now()
					for i := range 12 {
						p, j := ps[i%3], i/3
						wg.Go(func() {
							o := relock.WithLease([]time.Duration{lease, time.Second, 300 * time.Millisecond}[(i+j)%3])
							l, weight := p.lock(o), int64(1000)
							if w.typ == writer && j%2 == 1 {
								l, weight = reader.make(p.s, o), 1
							}
							ctx, cancel := context.WithCancel(background)
							if j == 3 {
								ctx, cancel = context.WithTimeout(ctx, time.Duration(5+2*round)*time.Millisecond)
							}
							defer cancel()
							if err := l.Lock(ctx); err != nil {
								assert.Error(t, ctx.Err(), "%v", err)
								return
							}
							if f, ok := l.(fenced); ok && c.excludes {
								token := f.FencingToken()
								if old := last.Swap(token); l.Err() == nil {
									assert.Greater(t, token, old, "round %d", round)
								}
							}
							if n := in.Add(weight); c.excludes {
								assert.LessOrEqual(t, n, int64(1000), "exclusion, round %d", round)
							}
							select {
							case <-time.After(time.Duration(5+9*j) * time.Millisecond):
							case <-l.Done():
							}
							in.Add(-weight)
							_ = l.Unlock(background)
						})
					}
					wg.Wait()
					assert.LessOrEqual(t, time.Since(start), c.claims*claim, "round %d", round)
					victim.heal()
					time.Sleep(2*lease + time.Second)
					if what == "back" {
						continue // what has been prolonged stays
					}
					c := w.redis[0].Client()
					keys, err := c.Do(background, c.B().Keys().Pattern("*").Build()).AsStrSlice()
					require.NoError(t, err)
					for _, k := range keys {
						stays := strings.HasPrefix(k, "relock_fence") || strings.HasPrefix(k, "relock_session")
						assert.True(t, stays, "round %d: %s is left", round, k)
					}
				}
			})
		})
	}
}
