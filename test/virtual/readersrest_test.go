package virtual_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// A reader had a minimum hold, which is long over. The last reader's release grants the first writer, at once.
func TestLastReaderLeavesAfterOneThatRested(t *testing.T) {
	alone(t, writer, func(t *testing.T, w *world) {
		a, b, c, d := w.process(), w.process(), w.process(), w.process()
		x, y := reader.make(a.s, relock.WithMinHold(time.Second)), reader.make(b.s)
		require.NoError(t, x.Lock(background))
		require.NoError(t, y.Lock(background))
		require.NoError(t, x.Unlock(background))
		time.Sleep(5 * time.Second)
		wl, rl := c.lock(), reader.make(d.s)
		wgot := locking(wl)
		rgot := locking(rl)
		start := time.Now()
		require.NoError(t, y.Unlock(background))
		var order string
		for range 2 {
			select {
			case <-wgot:
				order += "writer "
				t.Log("writer after", time.Since(start))
				require.NoError(t, wl.Unlock(background))
			case <-rgot:
				order += "reader "
				t.Log("reader after", time.Since(start))
				require.NoError(t, rl.Unlock(background))
			}
		}
		assert.Equal(t, "writer reader ", order)
		assert.Less(t, time.Since(start), 100*time.Millisecond)
		time.Sleep(time.Minute)
	})
}
