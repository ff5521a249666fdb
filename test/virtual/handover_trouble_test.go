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

// What befalls the server at any moment of a hand-over: exclusion, progress, and nothing is left.
func TestTroubleOfTheServerAtEveryMomentOfAHandOver(t *testing.T) {
	server := func(w *world, p *process) *memredis.Server { return memredis.Of(w.redis[0], p.s[0]).Server() }
	for what, c := range map[string]struct {
		excludes bool
		trouble  func(w *world, p *process)
	}{
		"queue evicted":  {true, func(w *world, p *process) { w.do("DEL", "relock_queue:{a}", "relock_rwqueue:{a}") }},
		"others evicted": {true, func(w *world, p *process) { w.do("DEL", "relock_seen:{a}", "relock_yield:{a}", "relock_readers:{a}") }},
		"restart":        {true, func(w *world, p *process) { w.restart(true) }},
		"flush":          {false, func(w *world, p *process) { w.restart(false) }},
		"back a bit":     {true, func(w *world, p *process) { server(w, p).StepClock(-6 * time.Second) }},
		"back":           {true, func(w *world, p *process) { server(w, p).StepClock(-time.Hour) }},
		"ahead":          {false, func(w *world, p *process) { server(w, p).StepClock(time.Hour) }},
		"ahead a bit":    {false, func(w *world, p *process) { server(w, p).StepClock(6 * time.Second) }},
		"forced":         {false, func(w *world, p *process) { go p.s[0].ForceUnlock(background, "a") }},
		"fails": {true, func(w *world, p *process) {
			time.AfterFunc(300*time.Millisecond, server(w, p).FailScripts("LOADING Redis is loading"))
		}},
		"OOM": {true, func(w *world, p *process) {
			time.AfterFunc(300*time.Millisecond, server(w, p).FailScripts("READONLY You can't write"))
		}},
	} {
		t.Run(what, func(t *testing.T) {
			eachExclusive(t, func(t *testing.T, w *world) {
				ps := []*process{w.process(relock.WithTenure(0)), w.process(), w.process()}
				ps[1].delay(3 * time.Millisecond)
				var longest time.Duration
				for round := range 8 {
					time.AfterFunc(time.Duration(round)*11500*time.Microsecond, func() { c.trouble(w, ps[round%3]) })
					var in, last atomic.Int64
					var wg sync.WaitGroup
					start := time.Now()
					for i, p := range ps {
						for j := range 4 {
							wg.Go(func() {
								o := relock.WithLease([]time.Duration{lease, time.Second, 300 * time.Millisecond}[(i+j)%3])
								l := p.lock(o)
								weight := int64(1000)
								if w.readWrite() && j%2 == 1 {
									l, weight = p.s[0].RWMutex("a", o).RLocker(), 1
								}
								ctx, cancel := background, func() {}
								if j == 3 {
									ctx, cancel = context.WithTimeout(ctx, time.Duration(5+round)*time.Millisecond)
								}
								defer cancel()
								if err := l.Lock(ctx); err != nil {
									assert.Error(t, ctx.Err())
									return
								}
								if f, ok := l.(interface{ FencingToken() int64 }); ok && c.excludes {
									token := f.FencingToken()
									if old := last.Swap(token); l.Err() == nil {
										assert.Greater(t, token, old, "round %d", round)
									}
								}
								if n := in.Add(weight); c.excludes {
									assert.True(t, n == 1000 || n < 1000, "exclusion, round %d: %d", round, n)
								}
								select {
								case <-time.After(time.Duration(5+9*j) * time.Millisecond):
								case <-l.Done():
								}
								in.Add(-weight)
								_ = l.Unlock(background)
							})
						}
					}
					wg.Wait()
					longest = max(longest, time.Since(start))
					assert.LessOrEqual(t, time.Since(start), 2*claim, "round %d", round)
					time.Sleep(2*lease + time.Second)
					if what == "back" {
						continue // what has been prolonged stays
					}
					k := w.redis[0].Client()
					keys, err := k.Do(background, k.B().Keys().Pattern("*").Build()).AsStrSlice()
					require.NoError(t, err)
					for _, k := range keys {
						assert.True(t, strings.HasPrefix(k, "relock_fence") || strings.HasPrefix(k, "relock_session"), "round %d: %s is left", round, k)
					}
				}
				t.Log(longest)
			})
		})
	}
}
