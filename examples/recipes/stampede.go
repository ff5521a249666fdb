package recipes

import (
	"context"
	"log"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/singleflight"

	"github.com/relock-go/relock"
)

// pages is a cache in Redis. Create one per process.
type pages struct {
	session *relock.Session
	redis   rueidis.Client
	compute func(ctx context.Context, key string) (string, error)
	flights singleflight.Group
}

// get returns a page. Callers in this process that want the same page share one load.
func (p *pages) get(ctx context.Context, key string) (string, error) {
	loaded := p.flights.DoChan(key, func() (any, error) {
		// Not ctx: when this caller gives up, the load goes on for the others.
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		return p.load(ctx, key)
	})
	select {
	case r := <-loaded:
		return r.Val.(string), r.Err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// load returns a page from the cache. If it is missing, one process computes it. The others wait
// for that, and look again.
func (p *pages) load(ctx context.Context, key string) (string, error) {
	look := func() (string, error) {
		return p.redis.Do(ctx, p.redis.B().Get().Key(key).Build()).ToString()
	}
	page, err := look()
	if !rueidis.IsRedisNil(err) {
		return page, err
	}
	lock := p.session.Mutex("compute:"+key, relock.WithWait(10*time.Second))
	return relock.DoValue(ctx, lock, func(ctx context.Context) (string, error) {
		page, err := look()
		if !rueidis.IsRedisNil(err) {
			return page, err // another process has computed it
		}
		if page, err = p.compute(ctx, key); err != nil {
			return "", err
		}
		set := p.redis.B().Set().Key(key).Value(page).Ex(time.Minute).Build()
		if err := p.redis.Do(ctx, set).Error(); err != nil {
			log.Printf("%s is computed, and not in the cache: %v", key, err)
		}
		return page, nil
	})
}
