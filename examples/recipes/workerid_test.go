package recipes

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/relocktest"
	"github.com/stretchr/testify/require"
)

// Processes that come and go make ids, each of which is new, and none once their lease is over.
func TestWorkersMakeEachIDOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := relocktest.New(t)
		var mu sync.Mutex
		seen := make(map[int64]bool)
		var all sync.WaitGroup
		for round := range 5 {
			session := redis.Session()
			all.Go(func() {
				time.Sleep(time.Duration(round) * 100 * time.Millisecond)
				err := snowflake(background, session, func(ctx context.Context, newID func() (int64, error)) error {
					last := int64(0)
					for range 5000 {
						id, err := newID()
						if err != nil {
							return err
						}
						mu.Lock()
						again := seen[id]
						seen[id] = true
						mu.Unlock()
						require.False(t, again, "%d was made twice", id)
						require.Greater(t, id, last)
						last = id
					}
					time.Sleep(time.Second)
					return nil
				})
				require.NoError(t, err)
			})
		}
		all.Wait()
		require.Len(t, seen, 25_000)

		session := redis.Session()
		err := snowflake(background, session, func(ctx context.Context, newID func() (int64, error)) error {
			redis.Partition(session)
			<-ctx.Done()
			_, err := newID()
			require.ErrorIs(t, err, relock.ErrLost)
			return err
		})
		require.ErrorIs(t, err, relock.ErrLost)
	})
}
