package engine

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/event"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// Each lock of a pipeline gets an answer of its own, and is unlocked by its own.
func TestLocksOfAPipelineAreAnsweredOneByOne(t *testing.T) {
	t.Parallel()
	mini, client := redistest.Mini(t)
	e, other := newEngine(t, client, time.Hour), newEngine(t, client, time.Hour)
	var locks []*Lock
	for name, k := range map[string]wire.Kind{"free": wire.Plain, "fair": wire.Fair, "read": wire.Read, "write": wire.Write, "taken": wire.Plain, "damaged": wire.Plain} {
		locks = append(locks, newLock(e, k, name, LockConfig{}))
	}
	require.NoError(t, newLock(other, wire.Plain, "taken", LockConfig{}).Lock(background))
	require.NoError(t, mini.Set("damaged", "text"))
	o := new(arbiter.Owner)
	ctx := arbiter.WithOwner(background, o)
	for _, l := range locks { // one is entered again
		if l.Name() == "free" {
			require.NoError(t, l.Lock(ctx))
		}
	}
	c := NewCall(ctx, nil, "a group", event.Group, "lock group", false)
	held, errs := TryAll(ctx, o, locks, &c)
	for i, l := range locks {
		require.Equal(t, l.Name() != "taken" && l.Name() != "damaged", held[i], l.Name())
		require.Equal(t, l.Name() == "damaged", errs[i] != nil, "%s: %v", l.Name(), errs[i])
	}
	for i, err := range UnlockAll(ctx, o, locks) {
		switch l := locks[i]; l.Name() {
		case "taken", "damaged":
			require.ErrorIs(t, err, lockerr.ErrNotHeld, l.Name())
		default:
			require.NoError(t, err, l.Name())
			require.Equal(t, l.Name() == "free", l.Err() == nil, l.Name())
		}
	}
	for i, l := range locks {
		if l.Name() == "free" {
			require.NoError(t, UnlockAll(ctx, o, locks[i:i+1])[0])
		}
	}
	left := slices.DeleteFunc(mini.Keys(), func(key string) bool { return strings.Contains(key, ":") }) // without relock's own
	require.ElementsMatch(t, []string{"damaged", "taken"}, left)
}

func TestPipelineOfAClosedEngine(t *testing.T) {
	t.Parallel()
	_, client := redistest.Mini(t)
	e := newEngine(t, client, time.Hour)
	l := newLock(e, wire.Plain, "a", LockConfig{})
	o := new(arbiter.Owner)
	require.NoError(t, l.Lock(arbiter.WithOwner(background, o)))
	require.NoError(t, e.Close(background))
	c := NewCall(background, nil, "a group", event.Group, "lock group", false)
	held, errs := TryAll(background, o, []*Lock{l}, &c)
	require.False(t, held[0])
	require.ErrorIs(t, errs[0], lockerr.ErrClosed)
	require.ErrorIs(t, UnlockAll(background, o, []*Lock{l})[0], lockerr.ErrLost)
}

// A part of a Redlock is a lease without a hold: taken, lost, released, or dropped.
func TestPartOfARedlock(t *testing.T) {
	t.Parallel()
	mini, client := redistest.Mini(t)
	e := newEngine(t, client, time.Hour)
	l := newLock(e, wire.Plain, "a", LockConfig{})
	var lost []error
	take := func() *lease.Lease {
		p, err := l.TryPart(background, 0, func(cause error) { lost = append(lost, cause) })
		require.NoError(t, err)
		return p
	}
	p := take()
	require.Nil(t, take(), "it is taken")
	held, err := l.ReleasePart(background, p)
	require.NoError(t, err)
	require.True(t, held)
	require.False(t, mini.Exists("a"))

	p = take()
	require.Greater(t, l.PartLeft(p), 50*time.Minute)
	l.DropPart(p)
	redistest.Eventually(t, enough, "the release", func() bool { return !mini.Exists("a") })

	p = take()
	e.Heard(wire.PrefixSession+e.ID(), "lost "+forcedID(p)+" a")
	require.Equal(t, []error{lease.ErrForced}, lost)
	held, err = l.ReleasePart(background, p)
	require.NoError(t, err)
	require.False(t, held)
	mini.Del("a")

	take()
	require.NoError(t, e.Close(background))
	require.Equal(t, []error{lease.ErrForced, lockerr.ErrClosed}, lost)
	require.False(t, mini.Exists("a"))
	_, err = l.TryPart(background, 0, nil)
	require.ErrorIs(t, err, lockerr.ErrClosed)
}
