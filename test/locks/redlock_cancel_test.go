package locks_test

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// tapped returns one tap on all servers of a site.
func (p *site) tapped() *tap {
	all := new(tap)
	forward := func() {
		if f := all.on.Load(); f != nil {
			(*f)()
		}
	}
	for _, proxy := range p.proxies {
		newTap(proxy).on.Store(&forward)
	}
	return all
}

// The call is cancelled while its script is on the way to the first server, the second,
// and so on, in the rounds after that, and while it sleeps between them. The scripts are
// executed all the same, and what they get is given back.
func TestARedlockThatIsCancelledHoldsNothingWhereverItIs(t *testing.T) {
	for what, taken := range map[string][]int{ // by others
		"free":                   nil,
		"a minority is taken":    {1, 3},
		"a majority is taken":    {0, 2, 4}, // each round gets two, and gives them back
		"everything is taken":    {0, 1, 2, 3, 4},
		"all but one are taken":  {1, 2, 3, 4},
		"taken by another value": {},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := newSite(t, 5)
			r := p.redlock("lock")
			kit.Lock(t, kit.Background, r) // the scripts are known
			kit.Unlock(t, kit.Background, r)
			strangers := p.more(t)
			for _, i := range taken {
				kit.Lock(t, kit.Background, strangers[i].Mutex("lock"))
			}
			holder := p.redlock("lock")
			if taken != nil && len(taken) == 0 {
				kit.Lock(t, kit.Background, holder)
			}
			left := func() bool { return p.left(t) == len(taken) || holder.Err() == nil && p.left(t) == 5 }
			tap := p.tapped()
			for _, wait := range []bool{true, false} {
				for n := 1; n <= 12; n++ {
					redistest.Eventually(t, kit.Quickly, "nothing else to be left", left)
					ctx, cancel := context.WithCancelCause(kit.Background)
					tap.at(n, func() { cancel(kit.ErrStop) })
					late := time.AfterFunc(50*time.Millisecond, func() { cancel(kit.ErrStop) })
					ok, err := true, error(nil)
					if wait {
						err = r.Lock(ctx)
					} else {
						ok, err = r.TryLock(ctx)
					}
					tap.on.Store(nil)
					late.Stop()
					switch {
					case err != nil:
						require.ErrorIs(t, err, kit.ErrStop, "at script %d", n)
						require.ErrorIs(t, err, context.Canceled, "at script %d", n)
						require.ErrorIs(t, r.Err(), relock.ErrNotHeld)
						require.ErrorIs(t, r.Unlock(kit.Background), relock.ErrNotHeld)
					case ok:
						require.Less(t, len(taken), 3)
						require.NoError(t, r.Err())
						kit.Unlock(t, kit.Background, r)
					default:
						require.False(t, wait)
					}
					cancel(nil)
				}
			}
			redistest.Eventually(t, kit.Quickly, "nothing else to be left", left)
		})
	}
}

// Many calls in two processes, cancelled at any time: those that get the lock exclude
// each other, and in the end nothing is left.
func TestRedlocksThatAreCancelledAtRandom(t *testing.T) {
	t.Parallel()
	p := newSite(t, 3)
	locks := []*relock.Redlock{p.redlock("lock"), relock.NewRedlock(p.more(t), "lock")}
	cancelledAtRandom(t, kit.Stress(t, time.Second), 10*time.Millisecond, func(i int) relock.Locker { return locks[i%2] })
	p.nothingLeft(t)
	for _, r := range locks {
		kit.Lock(t, kit.Background, r)
		kit.Unlock(t, kit.Background, r)
	}
}
