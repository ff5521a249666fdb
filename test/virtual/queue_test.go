package virtual_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// A claim is what a release gives to the next in the queue, until it is renewed.
const claim = 5 * time.Second

// Who is passed a claim has at least a third of it, even if Redis does not answer.
func TestClaimIsPassedOnOnlyWithAThirdOfIt(t *testing.T) {
	for late, want := range map[time.Duration]bool{0: true, 1: false} {
		t.Run(late.String(), func(t *testing.T) {
			alone(t, &lockTypes[0], func(t *testing.T, w *world) {
				p, other := w.process(relock.WithTenure(time.Hour)), w.process()
				holder := other.held()
				time.AfterFunc(time.Second, func() { _ = holder.Unlock(background) })
				l := p.s[0].Mutex("a")
				require.NoError(t, l.Lock(background))
				heal := p.partition()
				next := p.lock()
				got := begin(background, next)
				deadline, held := l.Deadline()
				require.True(t, held)
				require.LessOrEqual(t, time.Until(deadline), claim)
				time.Sleep(time.Until(deadline.Add(-claim/3)) + late)
				go func() { _ = l.Unlock(background) }()
				synctest.Wait()
				require.Equal(t, want, len(got) > 0)
				heal()
				require.NoError(t, <-got)
			})
		})
	}
}

// Looks keep the queue alive, which would expire after 15 s, and with it the places.
func TestWaitersKeepTheirPlacesWhileTheyWait(t *testing.T) {
	for i := range 2 {
		typ := &lockTypes[i]
		t.Run(typ.name, func(t *testing.T) {
			alone(t, typ, func(t *testing.T, w *world) {
				all := []*process{w.process(), w.process(), w.process(), w.process()}
				holder := all[0].held()
				for _, p := range all[1:] {
					go func() { _ = p.held().Unlock(background) }()
				}
				time.Sleep(time.Second)
				c := w.redis[0].Client()
				queue := func() []string {
					ids, err := c.Do(background, c.B().Arbitrary("ZRANGE", "relock_queue:{a}", "0", "-1").Build()).AsStrSlice()
					require.NoError(t, err)
					return ids
				}
				before := queue()
				require.Len(t, before, 3)
				time.Sleep(time.Minute)
				require.Equal(t, before, queue())
				require.NoError(t, holder.Unlock(background))
				time.Sleep(time.Minute)
				require.True(t, w.free())
			})
		})
	}
}
