package virtual_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/relocktest"
)

// The names a and {a} share a queue and channels: a release of one granted the lock to a waiter of the
// other, and everybody waited 5 s for that claim to expire.
func TestSimilarNamesDoNotDelayEachOther(t *testing.T) {
	t.Parallel()
	type lockOf func(s *relock.Session, name string) relock.Locker
	mutex := func(s *relock.Session, name string) relock.Locker { return s.Mutex(name) }
	fair := func(s *relock.Session, name string) relock.Locker { return s.FairMutex(name) }
	writer := func(s *relock.Session, name string) relock.Locker { return s.RWMutex(name) }
	reader := func(s *relock.Session, name string) relock.Locker { return s.RWMutex(name).RLocker() }
	group := func(s *relock.Session, name string) relock.Locker {
		return relock.NewGroup(s.Mutex(name), s.FairMutex(name+"b"), s.RWMutex(name+"c"))
	}
	redlock := func(s *relock.Session, name string) relock.Locker {
		return relock.NewRedlock([]*relock.Session{s}, name)
	}
	for kinds, pair := range map[string][2]lockOf{ // the second excludes both
		"Mutex": {mutex, mutex}, "FairMutex": {fair, fair}, "Mutex and FairMutex": {mutex, fair}, "writer": {writer, writer},
		"reader and writer": {reader, writer}, "Group": {group, group}, "Group and Mutex": {group, mutex}, "Redlock": {redlock, redlock},
	} {
		t.Run(kinds, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				redis := relocktest.New(t)
				var wg sync.WaitGroup
				inside := map[string]*atomic.Int64{"a": new(atomic.Int64), "{a}": new(atomic.Int64)}
				for process := range 2 { // in each two calls of each kind for each name
					s := redis.Session(relock.WithTenure(0)) // each unlock goes to the queue
					redis.Delay(s, time.Duration(1+process)*100*time.Microsecond)
					for name, in := range inside {
						for i := range 4 {
							wg.Go(func() { takeTurns(t, pair[i%2](s, name), in, kinds != "reader and writer" || i%2 == 1) })
						}
					}
				}
				wg.Wait()
			})
		})
	}
}

// takeTurns takes and ends a lock again and again. in counts those who have a lock of that name: a
// reader as 1.
func takeTurns(t *testing.T, l relock.Locker, in *atomic.Int64, excludes bool) {
	weight := int64(1)
	if excludes {
		weight = 10000
	}
	for range 8 {
		ctx, cancel := context.WithTimeout(background, time.Second)
		err := l.Lock(ctx)
		cancel()
		if !assert.NoError(t, err) {
			return
		}
		now := in.Add(weight)
		time.Sleep(time.Millisecond)
		in.Add(-weight)
		if !assert.NoError(t, l.Unlock(background)) || !assert.True(t, now == weight || now < 10000, "%d", now) {
			return
		}
	}
}
