package locks_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

// users counts who is in which slot, by reads and writes that are not atomic but for each slot alone.
type users struct {
	mu   sync.Mutex
	in   map[int]bool
	most int
	seen map[int64]bool // tokens
}

func (u *users) enter(slot int, token int64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.in[slot] {
		return fmt.Errorf("two have slot %d", slot)
	}
	if u.seen[token] {
		return fmt.Errorf("two had token %d", token)
	}
	u.in[slot], u.seen[token] = true, true
	u.most = max(u.most, len(u.in))
	return nil
}

func (u *users) leave(slot int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.in, slot)
}

// Through one value per process, which its goroutines share, n sections run at a time, each with a slot of its own.
func TestSemaphoreNeverHasMoreThanItsPermits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const permits = 5
	u := &users{in: make(map[int]bool), seen: make(map[int64]bool)}
	var plain [permits]int
	total := 0
	var all sync.WaitGroup
	for range 4 {
		sem := kit.NewSession(t, server).Semaphore("sem", permits)
		for range 8 {
			total += 25
			all.Go(func() {
				for range 25 {
					err := relock.Do(kit.Background, sem, func(ctx context.Context) error {
						slot := relock.HoldOf(ctx).Slot()
						if err := u.enter(slot, relock.Token(ctx)); err != nil {
							return err
						}
						n := plain[slot] // not atomic
						time.Sleep(100 * time.Microsecond)
						plain[slot] = n + 1
						u.leave(slot)
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	sum := 0
	for _, n := range plain {
		sum += n
	}
	require.Equal(t, total, sum)
	require.Greater(t, u.most, permits/2, "sections at a time")
	nothingLeft(t, server.Client(t))
}

// A handle takes a permit for each Lock without an owner, and Unlock ends the latest.
func TestHandleOfASemaphoreHoldsSeveralPermits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := kit.NewSession(t, server)
	sem := s.Semaphore("sem", 3)
	var tokens []int64
	for range 3 {
		require.NoError(t, sem.Lock(kit.Background))
		tokens = append(tokens, sem.FencingToken())
	}
	ok, err := sem.TryLock(kit.Background)
	require.NoError(t, err)
	require.False(t, ok)
	state := inspect(t, s, "sem")
	require.Equal(t, relock.Shared, state.Mode)
	require.Equal(t, 3, state.Permits)
	for slot, h := range state.Holders {
		require.Equal(t, slot, h.Slot)
		require.Equal(t, s.ID(), h.Session)
		require.Equal(t, 1, h.Count)
	}
	for slot := 2; slot >= 0; slot-- {
		require.NoError(t, sem.Err())
		require.Equal(t, tokens[slot], sem.FencingToken())
		require.NoError(t, sem.Unlock(kit.Background))
		require.Len(t, inspect(t, s, "sem").Holders, slot)
	}
	require.ErrorIs(t, sem.Err(), relock.ErrNotHeld)
	require.ErrorIs(t, sem.Unlock(kit.Background), relock.ErrNotHeld)
	nothingLeft(t, server.Client(t))
}

// Each permit that was lost makes one Unlock through the handle say so, before one that is held ends. Lock goes on.
func TestHandleOfASemaphoreTellsOfEachLossOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, other := kit.NewSession(t, server), kit.NewSession(t, server)
	sem := s.Semaphore("sem", 3)
	require.NoError(t, sem.Lock(kit.Background))
	require.NoError(t, sem.Lock(kit.Background))
	opened, err := other.ForceUnlock(kit.Background, "sem")
	require.NoError(t, err)
	require.True(t, opened)
	redistest.Eventually(t, kit.Soon, "the loss", func() bool { return errors.Is(sem.Err(), relock.ErrForced) })
	require.True(t, kit.TryLock(t, kit.Background, sem))
	require.NoError(t, sem.Lock(kit.Background))
	for range 2 {
		err := sem.Unlock(kit.Background)
		require.ErrorIs(t, err, relock.ErrForced)
		require.ErrorContains(t, err, "another hold of this lock value")
		require.NoError(t, sem.Err())
		require.Len(t, inspect(t, s, "sem").Holders, 2)
	}
	require.NoError(t, sem.Unlock(kit.Background))
	require.NoError(t, sem.Unlock(kit.Background))
	require.ErrorIs(t, sem.Unlock(kit.Background), relock.ErrNotHeld)
	nothingLeft(t, server.Client(t))
}

// An owner has one permit, and enters again.
func TestOwnerHasOnePermit(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := kit.NewSession(t, server)
	ctx := s.NewContext(kit.Background)
	require.NoError(t, s.Semaphore("sem", 2).Lock(ctx))
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := s.Semaphore("sem", 2).Lock(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Len(t, inspect(t, s, "sem").Holders, 1)
	for range 21 {
		require.NoError(t, s.Semaphore("sem", 2).Unlock(ctx))
	}
	nothingLeft(t, server.Client(t))

	// also if its calls wait at the same time
	full := kit.NewSession(t, server).Semaphore("sem", 1)
	require.NoError(t, full.Lock(kit.Background))
	for range 20 {
		all.Go(func() {
			if err := s.Semaphore("sem", 1).Lock(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	waiting(t, s, "sem", 1) // for all of them
	require.NoError(t, full.Unlock(kit.Background))
	all.Wait()
	require.Zero(t, inspect(t, s, "sem").Waiters)
	for range 20 {
		require.NoError(t, s.Semaphore("sem", 1).Unlock(ctx))
	}
	nothingLeft(t, server.Client(t))
}

func TestSemaphoreOfNoPermitsIsMisuse(t *testing.T) {
	t.Parallel()
	s := kit.NewSession(t, redistest.Start(t))
	for _, permits := range []int{0, -1} {
		sem := s.Semaphore("sem", permits)
		_, err := sem.TryLock(kit.Background)
		for _, err := range []error{err, sem.Lock(kit.Background), sem.Unlock(kit.Background)} {
			require.ErrorIs(t, err, relock.ErrOption)
		}
	}
	sem := s.Semaphore("sem", int(^uint(0)>>1))
	h := kit.Acquire(t, kit.Background, sem)
	require.Zero(t, h.Slot())
	require.NoError(t, h.Unlock(kit.Background))
}

// A name is one of a semaphore or of a lock.
func TestSemaphoreAndLockDoNotShareAName(t *testing.T) {
	t.Parallel()
	s := kit.NewSession(t, redistest.Start(t))
	for _, k := range kinds[:4] {
		sem, lock := s.Semaphore(k.name, 2), k.on(s, k.name)
		require.NoError(t, relock.Do(kit.Background, sem, func(ctx context.Context) error {
			require.ErrorIs(t, lock.Lock(ctx), relock.ErrNotLock)
			return nil
		}))
		require.NoError(t, relock.Do(kit.Background, lock, func(ctx context.Context) error {
			require.ErrorIs(t, sem.Lock(ctx), relock.ErrNotLock)
			return nil
		}))
	}
}

// Do inside Do takes another permit, unless this Do has the last one that could be free: that is a deadlock.
func TestDoInsideDoTakesAnotherPermit(t *testing.T) {
	t.Parallel()
	sem := kit.NewSession(t, redistest.Start(t)).Semaphore("sem", 2)
	require.Equal(t, -1, relock.HoldOf(kit.Background).Slot())
	require.NoError(t, relock.Do(kit.Background, sem, func(ctx context.Context) error {
		return relock.Do(ctx, sem, func(ctx context.Context) error {
			require.Equal(t, 1, relock.HoldOf(ctx).Slot())
			require.ErrorIs(t, sem.Lock(ctx), relock.ErrDeadlock)
			return nil
		})
	}))
}

// One of two permits is held, by an owner who has entered twice: another owner may have the other one.
func TestOwnerThatEntersTwiceHasOnePermit(t *testing.T) {
	t.Parallel()
	s := kit.NewSession(t, redistest.Start(t))
	sem := s.Semaphore("sem", 2)
	other := func(ctx context.Context) error {
		require.Len(t, inspect(t, s, "sem").Holders, 1)
		return relock.Do(s.NewContext(ctx), sem, func(context.Context) error { return nil })
	}
	require.NoError(t, relock.Do(s.NewContext(kit.Background), sem, func(ctx context.Context) error {
		return relock.Do(ctx, sem, other)
	}))
	require.NoError(t, relock.Do(kit.Background, relock.NewGroup(sem, s.Semaphore("sem", 2)), other))
}

// A Group has permits of semaphores as members, also two of one semaphore in two sessions.
func TestGroupHasPermits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, b := kit.NewSession(t, server), kit.NewSession(t, server)
	g := relock.NewGroup(a.Semaphore("sem", 2), a.Mutex("mutex"), b.Semaphore("sem", 2))
	require.NoError(t, g.Lock(kit.Background))
	require.Len(t, inspect(t, a, "sem").Holders, 2)
	ok, err := a.Semaphore("sem", 2).TryLock(kit.Background)
	require.NoError(t, err)
	require.False(t, ok)
	require.NoError(t, g.Unlock(kit.Background))
	nothingLeft(t, server.Client(t))
	c := kit.NewSession(t, server)
	for _, never := range []*relock.Group{
		relock.NewGroup(a.Semaphore("sem", 1), b.Semaphore("sem", 1)),
		relock.NewGroup(a.Semaphore("sem", 2), b.Semaphore("sem", 2), c.Semaphore("sem", 2)), // it waited for itself
	} {
		_, err = never.TryLock(kit.Background)
		require.ErrorIs(t, err, relock.ErrOption)
	}
}

// Groups that want two permits each of the two that there are.
func TestGroupsOfTwoPermitsTakeTurns(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var in int // not atomic
	require.NoError(t, kit.Together(4, func(int) error {
		g := relock.NewGroup(kit.NewSession(t, server).Semaphore("sem", 2), kit.NewSession(t, server).Semaphore("sem", 2))
		for range 10 {
			if err := relock.Do(kit.Background, g, func(context.Context) error { in++; return nil }); err != nil {
				return err
			}
		}
		return nil
	}))
	require.Equal(t, 40, in)
	nothingLeft(t, server.Client(t))
}

// Ten thousand permits of one process are renewed, forced open, and released by Close.
func TestTenThousandPermits(t *testing.T) {
	t.Parallel()
	const n = 10_000
	server := redistest.Start(t)
	s, other := kit.NewSession(t, server, relock.WithLease(24*time.Second)), kit.NewSession(t, server)
	sem := s.Semaphore("sem", n)
	var holds []*relock.Hold
	for slot := range n {
		holds = append(holds, kit.Acquire(t, kit.Background, sem))
		require.Equal(t, slot, holds[slot].Slot())
	}
	time.Sleep(9 * time.Second) // all are renewed
	state := inspect(t, other, "sem")
	require.Len(t, state.Holders, n)
	require.Equal(t, n-1, state.Holders[n-1].Slot)
	ok, err := other.Semaphore("sem", n).TryLock(kit.Background)
	require.NoError(t, err)
	require.False(t, ok)
	opened, err := other.ForceUnlock(kit.Background, "sem")
	require.NoError(t, err)
	require.True(t, opened)
	for _, h := range holds {
		_ = h.Unlock(kit.Background) // most are lost; of the others this process has not heard yet
	}
	for range n {
		require.NoError(t, sem.Lock(kit.Background))
	}
	require.NoError(t, s.Close(kit.Background))
	nothingLeft(t, server.Client(t))
}

// An operator may end one permit; the others stay.
func TestOnePermitIsForced(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := kit.NewSession(t, server)
	a, b := s.Semaphore("sem", 2), s.Semaphore("sem", 2)
	require.NoError(t, a.Lock(kit.Background))
	require.NoError(t, b.Lock(kit.Background))
	opened, err := s.ForceUnlockHolders(kit.Background, "sem", inspect(t, s, "sem").Holders[0].ID)
	require.NoError(t, err)
	require.True(t, opened)
	require.ErrorIs(t, a.Err(), relock.ErrForced)
	time.Sleep(100 * time.Millisecond)
	require.NoError(t, b.Err())
	require.NoError(t, b.Unlock(kit.Background))
	require.ErrorIs(t, a.Unlock(kit.Background), relock.ErrForced)
	nothingLeft(t, server.Client(t))
}
