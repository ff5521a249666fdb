package recipes

import (
	"context"

	"github.com/relock-go/relock"
)

// limited calls f, once fewer than n calls of the same name are under way in all processes.
func limited(
	ctx context.Context, session *relock.Session, name string, n int,
	f func(context.Context) error,
) error {
	return relock.Do(ctx, session.Semaphore(name, n), f)
}
