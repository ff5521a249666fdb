package recipes

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock"
)

// cached returns what is in the cache. If it is not there, one caller of all processes computes
// it; the others wait, and look again.
func cached(ctx context.Context, cache rueidis.Client, session *relock.Session, key string,
	compute func(context.Context) (string, error)) (string, error) {
	look := func() (string, error) {
		return cache.Do(ctx, cache.B().Get().Key(key).Build()).ToString()
	}
	value, err := look()
	if !rueidis.IsRedisNil(err) {
		return value, err
	}
	lock := session.Mutex("compute:"+key, relock.WithWait(10*time.Second))
	err = relock.Do(ctx, lock, func(ctx context.Context) (err error) {
		if value, err = look(); !rueidis.IsRedisNil(err) {
			return err // somebody has computed it meanwhile
		}
		if value, err = compute(ctx); err != nil {
			return err
		}
		return cache.Do(ctx, cache.B().Set().Key(key).Value(value).Ex(time.Minute).Build()).Error()
	})
	return value, err
}
