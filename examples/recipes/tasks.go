package recipes

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/relock-go/relock"
)

// A board has tasks: a table of a database, for instance.
type board interface {
	Open(ctx context.Context) (ids []string, err error)
	IsOpen(ctx context.Context, id string) (bool, error)

	// Finish notes that a task is done. It refuses a token smaller than the largest it has seen.
	Finish(ctx context.Context, id string, token int64) error
}

// workOn does the open tasks that no other worker has. Each worker calls it again and again.
func workOn(
	ctx context.Context, session *relock.Session, b board,
	do func(ctx context.Context, id string) error,
) error {
	ids, err := b.Open(ctx)
	rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	for _, id := range ids {
		_, failed := relock.TryDo(ctx, session.Mutex("task:"+id), func(ctx context.Context) error {
			open, err := b.IsOpen(ctx, id)
			if err != nil || !open { // another worker has done it since it was listed
				return err
			}
			if err := do(ctx, id); err != nil {
				return err
			}
			return b.Finish(ctx, id, relock.Token(ctx))
		})
		err = errors.Join(err, failed)
		if ctx.Err() != nil {
			break
		}
	}
	return err
}
