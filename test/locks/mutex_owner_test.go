package locks_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/stretchr/testify/require"
)

// A cast is two owners, and "", which is no owner, with two values of one lock.
type cast struct {
	s      *relock.Session
	owners map[string]context.Context
	values map[int]namedLocker
}

// A step is what one of them does, and what must come of it.
type step struct {
	text string
	do   func(t *testing.T, c *cast)
}

func locks(who string, value int) step {
	return step{fmt.Sprintf("%q locks value %d", who, value), func(t *testing.T, c *cast) {
		kit.Lock(t, c.owners[who], c.values[value])
		require.NoError(t, c.values[value].Err())
	}}
}

func gets(who string, value int) step {
	return step{fmt.Sprintf("%q gets value %d", who, value), func(t *testing.T, c *cast) {
		require.True(t, kit.TryLock(t, c.owners[who], c.values[value]))
	}}
}

func misses(who string, value int) step {
	return step{fmt.Sprintf("%q does not get value %d", who, value), func(t *testing.T, c *cast) {
		require.False(t, kit.TryLock(t, c.owners[who], c.values[value]))
	}}
}

func mustUnlock(who string, value int) step {
	return step{fmt.Sprintf("%q must unlock before it gets value %d", who, value), func(t *testing.T, c *cast) {
		ok, err := c.values[value].TryLock(c.owners[who])
		require.False(t, ok)
		require.ErrorIs(t, err, relock.ErrLost)
	}}
}

func unlocks(who string, value int, want error) step {
	return step{fmt.Sprintf("%q unlocks value %d: %v", who, value, want), func(t *testing.T, c *cast) {
		require.ErrorIs(t, c.values[value].Unlock(c.owners[who]), want) // nil is nil
	}}
}

// forced opens the lock and waits until the session knows.
func forced(value int) step {
	return step{"the lock is forced open", func(t *testing.T, c *cast) {
		forceUnlock(t, c.s, c.values[value])
	}}
}

func TestWhichHoldAnUnlockEnds(t *testing.T) {
	nobody, lost := relock.ErrNotHeld, relock.ErrLost
	plays := map[string][]step{
		"nothing is held": {unlocks("", 1, nobody), unlocks("a", 1, nobody)},
		"twice":           {locks("", 1), unlocks("", 1, nil), unlocks("", 1, nobody)},
		"twice by an owner": {
			locks("a", 1), unlocks("a", 1, nil), unlocks("a", 1, nobody), unlocks("", 1, nobody),
		},
		"without an owner, what an owner took through the value": {
			locks("a", 1), unlocks("", 1, nil), gets("b", 2), unlocks("b", 2, nil),
		},
		"without an owner, as often as the owner locked": {
			locks("a", 1), locks("a", 1), unlocks("", 1, nil), misses("b", 2), unlocks("", 1, nil), gets("b", 2),
		},
		"without an owner, not what an owner took through another value": {
			locks("a", 1), unlocks("", 2, nobody), misses("b", 2), unlocks("", 1, nil),
		},
		"without an owner, not what another goroutine took through another value": {
			locks("", 1), unlocks("", 2, nobody), misses("", 2), unlocks("", 1, nil),
		},
		"by the owner through another value": {locks("a", 1), unlocks("a", 2, nil), gets("b", 1)},
		"by another owner": {
			locks("a", 1), unlocks("b", 1, nobody), misses("b", 1), unlocks("a", 1, nil),
		},
		"by an owner, not what a goroutine without one holds": {
			locks("", 1), unlocks("a", 1, nobody), misses("a", 1), unlocks("", 1, nil),
		},
		"locked through both values": {
			locks("a", 1), locks("a", 2), unlocks("", 2, nil), misses("b", 1), unlocks("", 1, nil), gets("b", 1),
		},
		"an attempt that fails takes nothing": {
			locks("a", 1), misses("b", 1), unlocks("b", 1, nobody), misses("", 1), unlocks("", 1, nil), unlocks("", 1, nobody),
		},
		"lost": {
			locks("a", 1), forced(1), unlocks("a", 1, lost), unlocks("a", 1, nobody),
		},
		"lost, without an owner": {
			locks("", 1), forced(1), unlocks("", 1, lost), unlocks("", 1, nobody),
		},
		"lost, without an owner what an owner took": {
			locks("a", 1), forced(1), unlocks("", 1, lost), unlocks("a", 1, nobody),
		},
		"lost, as often as it was locked": {
			locks("a", 1), locks("a", 2), forced(1),
			unlocks("a", 2, lost), unlocks("a", 1, lost), unlocks("a", 1, nobody),
		},
		"lost, by another owner": {
			locks("a", 1), forced(1), unlocks("b", 1, nobody), unlocks("a", 1, lost),
		},
		"not taken again after a loss before it is unlocked": {
			locks("a", 1), forced(1), mustUnlock("a", 1), mustUnlock("a", 2), gets("b", 2),
			unlocks("a", 1, lost), misses("a", 1), unlocks("b", 2, nil), gets("a", 1), unlocks("a", 1, nil),
		},
		"taken by another after a loss": {
			locks("a", 1), forced(1), locks("b", 1), unlocks("a", 1, lost), misses("a", 1),
			unlocks("b", 1, nil), gets("a", 1), unlocks("a", 1, nil),
		},
	}
	perform(t, plays)
}

// perform has every play performed with each kind of exclusive lock.
func perform(t *testing.T, plays map[string][]step) {
	kinds := map[string]func(s *relock.Session) namedLocker{
		"Mutex":     func(s *relock.Session) namedLocker { return s.Mutex("lock") },
		"FairMutex": func(s *relock.Session) namedLocker { return s.FairMutex("lock") },
		"RWMutex":   func(s *relock.Session) namedLocker { return s.RWMutex("lock") },
	}
	for name, play := range plays {
		for kind, value := range kinds {
			t.Run(name+"/"+kind, func(t *testing.T) {
				kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
					s := kit.NewSession(t, at)
					c := &cast{
						s:      s,
						owners: map[string]context.Context{"": kit.Background, "a": s.NewContext(kit.Background), "b": s.NewContext(kit.Background)},
						values: map[int]namedLocker{1: value(s), 2: value(s)},
					}
					for i, step := range play {
						if !t.Run(fmt.Sprint(i, ": ", step.text), func(t *testing.T) { step.do(t, c) }) {
							return
						}
					}
				})
			})
		}
	}
}

// namedLocker is a lock of any kind.
type namedLocker interface {
	relock.Locker
	Name() string
}

// forceUnlock opens a lock that is held through m and waits until m knows.
func forceUnlock(t testing.TB, by *relock.Session, m namedLocker) {
	t.Helper()
	done := m.Done()
	was, err := by.ForceUnlock(kit.Background, m.Name())
	require.NoError(t, err)
	require.True(t, was)
	kit.Receive(t, done, "the holder to be told")
	require.ErrorIs(t, m.Err(), relock.ErrLost)
}

// What cannot be attributed must not be released under somebody else, and must not
// be left locked for ever either.
func TestAfterALossEveryHoldEndsWithItsUnlocks(t *testing.T) {
	lost := relock.ErrLost
	plays := map[string][]step{
		"the lost one first": {
			locks("a", 1), forced(1), locks("", 1),
			unlocks("a", 1, lost), misses("b", 2), unlocks("", 1, nil), gets("b", 2),
		},
		"the lost one first, without an owner": {
			locks("a", 1), forced(1), locks("", 1),
			unlocks("", 1, lost), misses("b", 2), unlocks("", 1, nil), gets("b", 2),
		},
		"a nameless loss, and an owner after it": {
			locks("", 1), forced(1), locks("a", 1),
			unlocks("", 1, lost), misses("b", 2), unlocks("", 1, nil), gets("b", 2),
		},
		"a nameless loss, and an owner that unlocks as such": {
			locks("", 1), forced(1), locks("a", 1),
			unlocks("a", 1, nil), gets("b", 2), unlocks("", 1, lost), misses("a", 1),
		},
		"an owner's loss, and a goroutine without one that unlocks first": {
			locks("a", 1), forced(1), locks("", 1),
			unlocks("", 1, lost), misses("b", 2), unlocks("a", 1, lost), gets("b", 2), unlocks("a", 1, relock.ErrNotHeld),
		},
		"an owner's loss, and another owner that unlocks first, as nobody": {
			locks("a", 1), locks("a", 1), forced(1), locks("b", 1), locks("b", 1),
			unlocks("", 1, lost), unlocks("", 1, lost), misses("", 2), unlocks("a", 2, lost), misses("", 2),
			unlocks("a", 1, lost), gets("", 2), unlocks("a", 1, relock.ErrNotHeld), unlocks("b", 1, relock.ErrNotHeld),
		},
		"two owners' losses, and one that unlocks as nobody": {
			locks("a", 1), forced(1), locks("b", 1), forced(1), unlocks("", 1, lost),
			unlocks("a", 1, lost), gets("", 1), unlocks("", 1, nil),
		},
	}
	perform(t, plays)
}
