package virtual_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
)

// Two processes lock each of their own names six times a second, and each name of the other every 8
// s: keeping saves nearly all that could be saved.
func TestNamesThatAnotherProcessWantsNowAndThenAreKept(t *testing.T) {
	alone(t, &lockTypes[0], func(t *testing.T, w *world) {
		const names = 8
		scripts := func(length time.Duration, o ...relock.LockOption) int64 {
			ps := []*process{w.process(), w.process()}
			var n atomic.Int64
			memredis.Of(w.redis[0], ps[0].s[0]).Server().OnCommand(func(verb string, _ []string) string {
				if strings.HasPrefix(verb, "EVAL") {
					n.Add(1)
				}
				return ""
			})
			end := time.Now().Add(length)
			var wg sync.WaitGroup
			uses := func(p *process, name string, first, every time.Duration) {
				l := p.s[0].Mutex(name, o...)
				wg.Go(func() {
					for time.Sleep(first); time.Now().Before(end); time.Sleep(every) {
						require.NoError(t, l.Lock(background))
						time.Sleep(time.Millisecond)
						require.NoError(t, l.Unlock(background))
					}
				})
			}
			for i := range names {
				for k, p := range ps {
					name := fmt.Sprint(o != nil, " ", k, " ", i)
					uses(p, name, time.Duration(i)*time.Millisecond, time.Second/6)
					uses(ps[1-k], name, time.Duration(i)*300*time.Millisecond, 8*time.Second)
				}
			}
			wg.Wait()
			return n.Load()
		}
		without := scripts(40 * time.Second)
		with := scripts(40*time.Second, keeps)
		saved := 1 - float64(with)/float64(without)
		t.Logf("%d scripts, %d with WithKeep: %.0f%% saved", without, with, 100*saved)
		require.Greater(t, saved, 0.85)
	})
}
