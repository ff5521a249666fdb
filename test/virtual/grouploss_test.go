package virtual_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/relocktest"
)

// A Group lost a member while it waited for another, and its Lock returned nil all the same, with
// a hold that was lost already and that others had.
func TestGroupLocksAgainWhatItLosesWhileItWaits(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]bool{"free": false, "taken": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				redis := relocktest.New(t)
				s, other := redis.Session(), redis.Session()
				release := redis.Hold("b")
				group := relock.NewGroup(s.FairMutex("a"), s.Mutex("b"))
				locked := make(chan error, 1)
				go func() { locked <- group.Lock(background) }()
				time.Sleep(time.Second)
				redis.Lose("a")
				a := other.FairMutex("a")
				if next {
					require.NoError(t, a.Lock(background))
					time.AfterFunc(time.Minute, func() { _ = a.Unlock(background) })
				}
				start := time.Now()
				time.Sleep(time.Second)
				release()
				require.NoError(t, <-locked)
				require.Equal(t, next, time.Since(start) >= time.Minute)
				require.NoError(t, group.Err())
				ok, err := a.TryLock(background)
				require.NoError(t, err)
				require.False(t, ok)
				require.NoError(t, group.Unlock(background))
			})
		})
	}
}
