package recipes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/relock-go/relock"
)

// limited calls f when fewer than n calls of the same name are under way in all processes.
func limited(ctx context.Context, session *relock.Session, name string, n int, f func(context.Context) error) error {
	for {
		first := rand.IntN(n)
		for i := range n {
			slot := session.Mutex(fmt.Sprintf("%s:%d", name, (first+i)%n))
			if ran, err := relock.TryDo(ctx, slot, f); ran || err != nil {
				return err
			}
		}
		// All are taken. Wait for one of them, but not for long: another may be free sooner.
		slot := session.Mutex(fmt.Sprintf("%s:%d", name, first), relock.WithWait(200*time.Millisecond))
		ran := false
		err := relock.Do(ctx, slot, func(ctx context.Context) error {
			ran = true
			return f(ctx)
		})
		if ran || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
}
