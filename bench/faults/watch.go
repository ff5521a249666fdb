package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A watch reads again and again who has a lock in Redis.
type watch struct {
	stop context.CancelFunc
	done chan struct{}

	mu   sync.Mutex // protects following
	seen []sight    // each with another owner than the one before
	last int64      // when it last looked
	err  error
}

// A sight is who had the lock in Redis from a time on.
type sight struct {
	at    int64
	owner string
}

const lookEvery = 20 * time.Millisecond

func startWatch(p *peer, c *redis.Client, name string) *watch {
	ctx, stop := context.WithCancel(context.Background())
	w := &watch{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for tick := time.Tick(lookEvery); ; {
			owner, err := p.owner(ctx, c, name)
			if ctx.Err() != nil {
				return
			}
			w.note(owner, err)
			select {
			case <-ctx.Done():
			case <-tick:
			}
		}
	}()
	return w
}

func (w *watch) end() {
	w.stop()
	<-w.done
}

func (w *watch) note(owner string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.err = err
		return
	}
	w.last = monotonic()
	if n := len(w.seen); n == 0 || w.seen[n-1].owner != owner {
		w.seen = append(w.seen, sight{w.last, owner})
	}
}

// free returns for how long nobody has had the lock.
func (w *watch) free() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.seen); n > 0 && w.seen[n-1].owner == "" {
		return time.Duration(w.last - w.seen[n-1].at)
	}
	return 0
}

// gone returns when the owner of a time had the lock no more, or 0 if it had it to the last.
func (w *watch) gone(at int64) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.seen, func(s sight) bool { return s.at > at })
	if i < 0 {
		return 0
	}
	return w.seen[i].at
}

// longest returns for how long, after a time, one owner had the lock.
func (w *watch) longest(after int64) (d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, s := range w.seen {
		end := w.last
		if i+1 < len(w.seen) {
			end = w.seen[i+1].at
		}
		if s.owner != "" {
			d = max(d, time.Duration(end-max(s.at, after)))
		}
	}
	return d
}
