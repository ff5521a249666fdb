package lease

import (
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// cleaner is a cleaner that runs until the test ends.
func (r *rig) cleaner() *Cleaner {
	c := NewCleaner(r.t.Context(), r.Proto, r.Clock, r.Ctx.Done())
	r.wg.Go(c.Run)
	return c
}

// cleaned gives a lease to a cleaner, and returns where the end of that is told.
func cleaned(c *Cleaner, l *Lease, indeterminate bool) (gone chan struct{}) {
	gone = make(chan struct{})
	c.Add(l, indeterminate, func(error) { close(gone) })
	return gone
}

// tries waits until the cleaner has tried three times. It must not be done.
func (r *rig) tries(c *Cleaner, gone chan struct{}) {
	r.t.Helper()
	redistest.Eventually(r.t, enough, "three tries", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		tasks := c.tasks.All()
		return len(tasks) == 1 && tasks[0].delay >= 64*time.Millisecond // four times as long after each
	})
	select {
	case <-gone:
		require.Fail(r.t, "the cleaner has given up")
	default:
	}
}

func (r *rig) ends(gone chan struct{}) {
	r.t.Helper()
	select {
	case <-gone:
	case <-time.After(enough):
		require.Fail(r.t, "the cleaner does not come to an end")
	}
}

func TestCleanerReleasesWhatIsLeft(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.cleaner()
	for range 3 {
		l := r.acquire(r.lease())
		r.ends(cleaned(c, l, false))
		require.False(t, r.mini.Exists(l.Keys.Name))
	}
	r.ends(cleaned(c, r.lease(), false)) // nothing is there
	c.Add(r.lease(), false, nil)
}

func TestCleanerTriesAsLongAsItHelps(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		acquired bool
		refusal  string
		then     func(r *rig, l *Lease)
	}{
		// An attempt that got no reply may be executed later than its release.
		"acquired late":       {false, "", func(r *rig, l *Lease) { r.acquire(l) }},
		"until Redis answers": {true, "LOADING Redis is loading", func(r *rig, _ *Lease) { r.mini.SetError("") }},
		"as long as a lease":  {false, "", func(r *rig, _ *Lease) { r.Clock.Skip(length) }},
	} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t)
			cleaner, l := r.cleaner(), r.lease()
			if c.acquired {
				r.acquire(l)
			}
			r.mini.SetError(c.refusal)
			gone := cleaned(cleaner, l, !c.acquired)
			r.tries(cleaner, gone)
			c.then(r, l)
			r.ends(gone)
			require.False(t, r.mini.Exists(l.Keys.Name))
		})
	}
	r := newRig(t)
	r.mini.SetError("NOPERM this user has no permissions to run the 'evalsha' command")
	r.ends(cleaned(r.cleaner(), r.lease(), false)) // which no other try would help
}

// What it releases may be a place in a queue, which outlives a lease.
func TestCleanerGoesOnWhileRedisHasNoMemory(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c, l := r.cleaner(), r.acquire(r.lease())
	l.Length = time.Nanosecond
	r.mini.SetError("OOM command not allowed when used memory > 'maxmemory'.")
	gone := cleaned(c, l, false)
	r.ends(gone) // its lease has ended
	r.tries(c, nil)
	r.mini.SetError("")
	redistest.Eventually(t, enough, "a release", func() bool { return !r.mini.Exists(l.Keys.Name) })
}

func TestCleanerTriesOnceMoreWhenItStops(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := r.acquire(r.lease())
	stop := make(chan struct{})
	c := NewCleaner(t.Context(), r.Proto, r.Clock, stop)
	_, _ = r.Proto.ReleaseAll(t.Context(), []*wire.Ref{&r.lease().Ref}) // Redis knows the script then
	gone := cleaned(c, l, true)
	c.tasks.Set(&c.tasks.All()[0].timer, r.Clock.Now()+int64(length)) // its next try is far away
	close(stop)
	c.Run()
	r.ends(gone)
	require.False(t, r.mini.Exists(l.Keys.Name))
}

// Redis refuses writes while it cannot save or has no memory. A release is worth another try then, unlike
// an acquisition.
func TestReleaseIsTriedAgainWhileRedisCannotWrite(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for text, again := range map[string]bool{
		"MISCONF Redis is configured to save RDB snapshots":                 true,
		"OOM command not allowed when used memory > 'maxmemory'.":           true,
		"LOADING Redis is loading the dataset in memory":                    true,
		"WRONGTYPE Operation against a key holding the wrong kind of value": false,
	} {
		r.mini.SetError(text)
		_, err := r.Proto.Release(r.Ctx, &r.lease().Ref)
		require.Error(t, err)
		require.Equal(t, again, RetryRelease(err), "%q", text)
	}
}
