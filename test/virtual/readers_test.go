package virtual_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// locking calls Lock in a goroutine that is queued when locking returns.
func locking(l relock.Locker) <-chan error {
	got := begin(background, l)
	time.Sleep(time.Second)
	synctest.Wait()
	return got
}

// The owner of a write hold that goes on reading lets the readers that wait in at once, of its process
// and of others, and no writer until they have all left. Replies may get lost meanwhile.
func TestDowngradeLetsReadersInAtOnce(t *testing.T) {
	t.Parallel()
	for name, lossy := range map[string]bool{"": false, "with lost replies": true} {
		t.Run(name, func(t *testing.T) {
			alone(t, reader, func(t *testing.T, w *world) {
				p, other, third := w.process(), w.process(), w.process()
				rw, owner := p.s[0].RWMutex("a"), p.s[0].NewContext(background)
				lose := func() {
					if lossy {
						p.loseReply()
					}
				}
				for range 2 {
					require.NoError(t, rw.Lock(owner))
					require.NoError(t, rw.Lock(owner))
					read, written := make(chan relock.Locker, 4), make(chan relock.Locker, 2)
					locks := func(l relock.Locker, had chan<- relock.Locker) {
						go func() { assert.NoError(t, l.Lock(background)); had <- l }()
						time.Sleep(time.Second)
					}
					for _, p := range []*process{p, other, other, p} {
						locks(p.lock(), read)
					}
					locks(p.opposite(), written)
					locks(third.opposite(), written)
					lose()
					require.NoError(t, rw.RLock(owner))
					require.NoError(t, rw.RLock(owner))
					token := rw.FencingToken()
					require.NoError(t, rw.Unlock(owner))
					require.Equal(t, token, rw.FencingToken(), "locked twice")
					time.Sleep(10 * time.Second)
					require.Zero(t, len(read)+len(written))
					lose()
					start := time.Now()
					require.NoError(t, rw.Unlock(owner))
					require.ErrorIs(t, rw.Err(), relock.ErrNotHeld)
					var readers []relock.Locker
					for range cap(read) {
						r := <-read
						readers = append(readers, r)
						require.LessOrEqual(t, time.Since(start), map[bool]time.Duration{true: time.Second}[lossy])
						require.NoError(t, r.Err())
					}
					require.NoError(t, rw.RLocker().Err())
					require.ErrorIs(t, rw.Lock(owner), relock.ErrUpgrade)
					time.Sleep(10 * time.Second)
					for _, r := range readers {
						require.NoError(t, r.Unlock(background))
					}
					require.NoError(t, rw.RUnlock(owner))
					time.Sleep(10 * time.Second)
					require.Empty(t, written, "beside the owner, which has read twice")
					lose()
					require.NoError(t, rw.RUnlock(owner))
					for range cap(written) {
						l := <-written
						time.Sleep(time.Second)
						require.Empty(t, written, "two writers")
						require.NoError(t, l.Unlock(background))
					}
					time.Sleep(10 * time.Second)
					require.True(t, w.free())
				}
			})
		})
	}
}

// What a reader that is gone has of the lock ends with the longest lease of those that read with it, once these have
// left. It disturbs nobody when it is back.
func TestReaderThatIsGoneHoldsForTheLongestLease(t *testing.T) {
	t.Parallel()
	const short = 6 * time.Second
	for when, leave := range map[string]time.Duration{"before": short / 2, "after": 5 * lease} {
		t.Run("the others leave "+when, func(t *testing.T) {
			alone(t, reader, func(t *testing.T, w *world) {
				p, gone, writer := w.process(), w.process(), w.process()
				held := p.held()
				l := gone.lock(relock.WithLease(short))
				require.NoError(t, l.Lock(background))
				heal := gone.partition()
				start := time.Now()
				next := writer.opposite()
				got := locking(next)
				time.Sleep(leave - time.Second)
				require.NoError(t, held.Err())
				require.Empty(t, got)
				require.NoError(t, held.Unlock(background))
				require.NoError(t, <-got)
				require.LessOrEqual(t, time.Since(start), leave+lease+50*time.Millisecond)
				fields := w.fields()
				heal()
				require.ErrorIs(t, l.Err(), relock.ErrLost)
				require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
				require.ErrorIs(t, l.Unlock(background), relock.ErrNotHeld)
				time.Sleep(lease / 4)
				require.NoError(t, next.Err())
				require.Equal(t, fields, w.fields())
				again := gone.lock()
				got = locking(again)
				require.NoError(t, next.Unlock(background))
				require.NoError(t, <-got)
				require.NoError(t, again.Unlock(background))
			})
		})
	}
}
