package virtual_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// When Redis hangs, Unlock waits while its context lives, for 100 ms at least and 2 s at most. The hold was certain.
func TestUnlockWaitsWhileItsContextLives(t *testing.T) {
	after := func(d time.Duration) func() (context.Context, func()) {
		return func() (context.Context, func()) {
			ctx, cancel := context.WithCancel(background)
			timer := time.AfterFunc(d, cancel)
			return ctx, func() { timer.Stop(); cancel() }
		}
	}
	onEach(t, func(t *testing.T, w *world) {
		for want, context := range map[time.Duration]func() (context.Context, func()){
			2 * time.Second: func() (context.Context, func()) { return background, func() {} },
			300 * time.Millisecond: func() (context.Context, func()) {
				return context.WithTimeout(background, 300*time.Millisecond)
			},
			500 * time.Millisecond: after(500 * time.Millisecond),
			100 * time.Millisecond: after(10 * time.Millisecond),
		} {
			p := w.process() // whose connections have never been pipelined
			l := p.held()
			heal := p.partition()
			ctx, stop := context()
			require.Equal(t, want, took(func() { require.NoError(t, l.Unlock(ctx)) }))
			stop()
			heal()
			time.Sleep(lease)
			require.True(t, w.free())
		}
		p := w.process()
		l := p.held()
		heal := p.partition()
		ended, cancel := context.WithCancel(background)
		cancel()
		require.Equal(t, 100*time.Millisecond, took(func() { require.NoError(t, l.Unlock(ended)) }))
		heal()
		time.Sleep(lease)
	})
}

// TryLock does not wait for long either, and says what has happened.
func TestTryLockOfASilentRedisEndsSoon(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		defer p.partition()()
		ctx, cancel := context.WithTimeout(background, 20*time.Second)
		defer cancel()
		require.LessOrEqual(t, took(func() {
			ok, err := p.lock().TryLock(ctx)
			require.False(t, ok)
			require.ErrorContains(t, err, "no answer from Redis for ")
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, context.Canceled)
		}), 3*time.Second)
	})
}

// Observers hear of a Redis that does not answer long before the lease has ended.
func TestRenewalWithoutAnAnswerIsToldSoon(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		failures := new(failures)
		p := w.process(relock.WithObserver(failures))
		l := p.held()
		start := time.Now()
		heal := p.partition()
		time.Sleep(lease / 2)
		first, err := failures.firstOf()
		require.LessOrEqual(t, first.Sub(start), lease/3+lease/12)
		require.ErrorContains(t, err, "relock: renew: no answer from Redis for ")
		heal()
		require.NoError(t, l.Unlock(background))
		time.Sleep(lease)
	})
}

// failures remembers the first renewal that failed.
type failures struct {
	relock.NopObserver
	mu    sync.Mutex
	first time.Time
	err   error
}

func (f *failures) firstOf() (time.Time, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.first, f.err
}

func (f *failures) Renewed(e relock.RenewEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.Err != nil && f.first.IsZero() {
		f.first, f.err = time.Now(), e.Err
	}
}

// WithWait bounds the wait, and nothing else.
func TestLockWaitsNoLongerThanWithWait(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		first := other.opposite()
		if typ := w.typ.name; typ == "Redlock" || typ == "Group" || typ == "mixed Group" {
			first = other.lock()
		}
		require.NoError(t, first.Lock(background))
		l := p.lock(relock.WithWait(300 * time.Millisecond))
		require.Equal(t, 300*time.Millisecond, took(func() {
			err := l.Lock(background)
			require.ErrorIs(t, err, relock.ErrTaken)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}))
		short, cancel := context.WithTimeout(background, 100*time.Millisecond)
		require.Equal(t, 100*time.Millisecond, took(func() { require.ErrorIs(t, l.Lock(short), relock.ErrTaken) }))
		cancel()
		require.NoError(t, first.Unlock(background))
		time.Sleep(time.Second)
		require.NoError(t, relock.Do(background, l, func(ctx context.Context) error {
			time.Sleep(2 * lease)
			return ctx.Err()
		}))

		heal := p.partition()
		err := p.lock(relock.WithWait(5 * time.Second)).Lock(background)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, relock.ErrTaken)
		heal()
		time.Sleep(lease)
		require.True(t, w.free())
	})
}

// A wait may end in the very moment in which the lock changes hands: somebody else has had it all the same.
func TestWaitThatEndsAtAHandOverSaysTaken(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		if !w.exclusive() {
			return
		}
		processes := []*process{w.process(), w.process(), w.process()}
		var all sync.WaitGroup
		for i := range 30 {
			l := processes[i%3].lock(relock.WithWait(300 * time.Millisecond))
			all.Go(func() {
				err := relock.Do(background, l, func(context.Context) error {
					time.Sleep(100 * time.Millisecond)
					return nil
				})
				if err != nil {
					require.ErrorIs(t, err, relock.ErrTaken)
				}
			})
		}
		all.Wait()
	})
}
