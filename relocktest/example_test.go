package relocktest_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/relocktest"
)

// The package documentation has the first of these tests.

// My job stops when the lock is lost.
func TestJobStopsWhenTheLockIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := relocktest.New(t)
		session := redis.Session()
		time.AfterFunc(10*time.Minute, func() { redis.Partition(session) })

		start := time.Now()
		err := work(t.Context(), session.Mutex("job")) // the code under test

		if !errors.Is(err, relock.ErrLost) {
			t.Errorf("the job ended with %v", err)
		}
		// The lease is 30 seconds, and was renewed when Redis went away.
		if took := time.Since(start); took > 10*time.Minute+30*time.Second {
			t.Errorf("the job ended after %v", took)
		}
	})
}

// work does something every second until its context ends.
func work(ctx context.Context, lock relock.Locker) error {
	return relock.Do(ctx, lock, func(ctx context.Context) error {
		for {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
}

// My handler gives up when somebody else has the lock.
func TestHandlerGivesUpWhenSomebodyElseHasTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := relocktest.New(t)
		session := redis.Session()
		buy := func(w http.ResponseWriter, r *http.Request) { // the code under test
			ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
			defer cancel()
			lock := session.Mutex("goods:1000:1")
			if err := lock.Lock(ctx); err != nil {
				http.Error(w, "try again later", http.StatusServiceUnavailable)
				return
			}
			defer func() { _ = lock.Unlock(ctx) }()
			w.WriteHeader(http.StatusOK)
		}
		status := func() int {
			w := httptest.NewRecorder()
			buy(w, httptest.NewRequest(http.MethodPost, "/buy", nil))
			return w.Code
		}

		release := redis.Hold("goods:1000:1")
		start := time.Now()
		if got := status(); got != http.StatusServiceUnavailable {
			t.Errorf("with the lock held by somebody else the status was %d", got)
		}
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("the handler gave up after %v", took)
		}

		time.AfterFunc(time.Second, release)
		if got := status(); got != http.StatusOK {
			t.Errorf("with the lock released in time the status was %d", got)
		}
	})
}

// Nothing doubles when replies are lost: what relock sends again has the effect of once.
func TestNothingDoublesWhenRepliesAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := relocktest.New(t)
		session := redis.Session()
		sold := 0
		sell := func(ctx context.Context) error { // the code under test
			return relock.Do(ctx, session.Mutex("goods:1000:1"), func(context.Context) error {
				sold++
				return nil
			})
		}

		for range 10 {
			redis.DropReplies(session, 1)
			if err := sell(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if sold != 10 {
			t.Errorf("%d were sold", sold)
		}
		if ok, err := redis.Session().Mutex("goods:1000:1").TryLock(t.Context()); !ok || err != nil {
			t.Errorf("the lock is not free: %v, %v", ok, err)
		}
	})
}
