package locks

import (
	"context"
	"errors"
	"sync"

	"github.com/relock-go/relock"
)

// atOnce is how many locks are read at the same time.
const atOnce = 32

// ReadAll reads several locks. What is no lock, and what this user may not read, is left out.
// It returns an error if none could be read.
func (r *Reader) ReadAll(ctx context.Context, names []string) ([]Lock, error) {
	read, errs := make([]Lock, len(names)), make([]error, len(names))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(atOnce, len(names)) {
		wg.Go(func() {
			for i := range next {
				read[i], errs[i] = r.Read(ctx, names[i])
			}
		})
	}
	for i := range names {
		next <- i
	}
	close(next)
	wg.Wait()
	var good []Lock
	var failed error
	for i, l := range read {
		if errs[i] == nil {
			good = append(good, l)
		} else if !errors.Is(errs[i], relock.ErrNotLock) {
			failed = errs[i]
		}
	}
	if len(good) > 0 {
		failed = ctx.Err()
	}
	return good, failed
}
