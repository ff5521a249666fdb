package locks_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A race is a call of Lock whose context ends after a random time. That time is
// moved to where the call gets the lock as often as not.
type race struct {
	span         time.Duration // the mean time after which the context ends
	got, stopped int
}

func newRace() *race { return &race{span: time.Millisecond} }

// context returns one that ends by a deadline or by its owner.
func (r *race) context(parent context.Context) (context.Context, context.CancelFunc) {
	after := rand.N(2 * r.span)
	if rand.N(2) == 0 {
		return context.WithTimeoutCause(parent, after, kit.ErrStop)
	}
	ctx, cancel := context.WithCancelCause(parent)
	timer := time.AfterFunc(after, func() { cancel(kit.ErrStop) })
	return ctx, func() { timer.Stop(); cancel(nil) }
}

// settle ends a call that returned err: it unlocks what the call got.
func (r *race) settle(m relock.Locker, ctx context.Context, err error) error {
	switch {
	case err == nil:
		r.got++
		r.span = max(r.span*9/10, 10*time.Microsecond)
		return m.Unlock(ctx)
	case errors.Is(err, kit.ErrStop):
		r.stopped++
		r.span = min(r.span*11/10, 50*time.Millisecond)
		return nil
	}
	return err
}

// goesOn reports whether to go on: until then, and on a slow machine until there was
// either outcome.
func (r *race) goesOn(end time.Time) bool {
	left := time.Until(end)
	return left > 0 || left > -kit.Soon && (r.got == 0 || r.stopped == 0)
}

const aRace = 100 * time.Millisecond // there are many

// Everybody at once: several sessions with several goroutines, with and without
// owners, who lose patience at random. Nobody's turn may get lost, and in the end
// nothing may be left. (Readers and writers together: TestRWMutexStorm.)
func TestCancelStorm(t *testing.T) {
	eachExclusive(t, func(t *testing.T, k *kit.LockKind) {
		server := redistest.Start(t)
		client := kit.NewClient(t, server)
		var sessions []*relock.Session
		for i := range 3 {
			sessions = append(sessions, kit.NewSession(t, server, relock.WithTenure(time.Duration(i)*5*time.Millisecond)))
		}
		const goroutines = 6
		end := time.Now().Add(kit.Stress(t, 2*aRace))
		races := make([]*race, len(sessions)*goroutines)
		require.NoError(t, kit.Together(len(races), func(i int) error {
			m, parent := k.Of(sessions[i/goroutines]), kit.Background
			if i%goroutines == 0 {
				parent = sessions[0].NewContext(parent)
			}
			races[i] = newRace()
			for races[i].goesOn(end) {
				ctx, cancel := races[i].context(parent)
				err := m.Lock(ctx)
				if err == nil {
					if err := kit.Bump(kit.Background, client, "count"); err != nil {
						return err
					}
				}
				err = races[i].settle(m, parent, err)
				cancel()
				if err != nil {
					return fmt.Errorf("goroutine %d: %w", i, err)
				}
			}
			return nil
		}))
		nothingLeft(t, client)
		total := 0
		for _, r := range races {
			require.NotZero(t, r.got, "nobody is left behind")
			total += r.got
		}
		require.Equal(t, total, kit.Counted(t, client, "count"))
		for _, s := range sessions {
			m := k.Of(s)
			kit.Lock(t, kit.Background, m)
			kit.Unlock(t, kit.Background, m)
		}
	})
}
