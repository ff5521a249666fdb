package virtual_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// Who looks at a lock sees the term of its holder: the token and the age of the hold, for as long as it lasts.
func TestStateHasTokenAndAge(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		if w.typ.redis > 1 {
			return
		}
		p, other := w.process(), w.process()
		for range 2 {
			l := p.held()
			start := time.Now()
			for _, after := range []time.Duration{0, time.Second, 3 * time.Minute, 5 * time.Minute} {
				time.Sleep(after)
				st, err := other.s[0].Inspect(background, "a")
				require.NoError(t, err)
				require.Equal(t, map[bool]int{true: 1}[w.typ == semaphore], st.Permits)
				if !w.exclusive() {
					require.Zero(t, st.Token)
					require.Zero(t, st.Age)
					continue
				}
				if f, ok := l.(interface{ FencingToken() int64 }); ok {
					require.Equal(t, f.FencingToken(), st.Token, "after %v", after)
				}
				require.Positive(t, st.Token)
				require.InDelta(t, time.Since(start), st.Age, float64(5*time.Millisecond))
			}
			require.NoError(t, l.Unlock(background))
			st, err := other.s[0].Inspect(background, "a")
			require.NoError(t, err)
			require.Equal(t, relock.State{}, st)
		}
	})
}
