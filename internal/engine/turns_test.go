package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/pubsub"
	"github.com/stretchr/testify/require"
)

const (
	testStep = int64(time.Millisecond)
	longAgo  = int64(time.Hour)
)

// dueAt asks for the turn when so many releases were heard of.
func dueAt(t *turns, now, n int64) int64 {
	return t.due("c", now, pubsub.Heard{N: n}, time.Duration(testStep))
}

// endedAt records a turn that took no time.
func endedAt(t *turns, at int64, others int, heard int64) {
	t.ended("c", turn{since: at, end: at, others: others, heard: heard})
}

func TestTurnComesWhenAllOthersHadTheirs(t *testing.T) {
	var turns turns
	endedAt(&turns, longAgo, 3, 11)
	for passed, steps := range []int64{3, 2, 1} {
		require.Equal(t, longAgo+steps*testStep, dueAt(&turns, longAgo, 11+int64(passed)), "after %d turns", passed)
	}
	require.Equal(t, longAgo+3*testStep, dueAt(&turns, longAgo, 10), "its own release is not heard yet")
	require.Zero(t, dueAt(&turns, longAgo, 14), "after as many turns as there are others")
	require.Zero(t, dueAt(&turns, longAgo, 20))
}

func TestTurnWaitsFromTheLastRelease(t *testing.T) {
	var turns turns
	endedAt(&turns, longAgo, 3, 11)
	last := longAgo + 50*testStep
	require.Equal(t, last+testStep, turns.due("c", last, pubsub.Heard{N: 13, Last: last}, time.Duration(testStep)))
}

func TestTurnIsForgotten(t *testing.T) {
	for what, look := range map[string]func(*turns) int64{
		"when nobody else waits": func(t *turns) int64 {
			endedAt(t, longAgo, 0, 12)
			return dueAt(t, longAgo, 12)
		},
		"after a while":                   func(t *turns) int64 { return dueAt(t, longAgo+int64(turnForget)+1, 11) },
		"when the count starts anew":      func(t *turns) int64 { return dueAt(t, longAgo, 5) },
		"when messages may be missing":    func(t *turns) int64 { return dueAt(t, longAgo, 11+turnsMost) },
		"and is not that of another lock": func(t *turns) int64 { return t.due("d", longAgo, pubsub.Heard{N: 11}, time.Second) },
	} {
		t.Run(what, func(t *testing.T) {
			var turns turns
			endedAt(&turns, longAgo, 3, 11)
			require.NotZero(t, dueAt(&turns, longAgo, 11))
			require.Zero(t, look(&turns))
		})
	}
}

func TestTurnsOfManyLocksAreNotKept(t *testing.T) {
	var turns turns
	for i := range 10_000 {
		now := int64(i) * int64(turnForget) / 100
		turns.ended(fmt.Sprint(i), turn{since: now, end: now, others: 1})
	}
	require.Less(t, len(turns.of), 1000)
	require.EqualValues(t, len(turns.of), turns.some.Load())
}

// A process that stays subscribed does not want the lock. It costs a step, but not
// each time.
func TestTurnDoesNotWaitForThoseWhoNeverCome(t *testing.T) {
	var turns turns
	now, waits := longAgo, []int64(nil)
	for range 1000 {
		endedAt(&turns, now, 2, 0)
		wait := max(0, dueAt(&turns, now, 0)-now)
		waits = append(waits, wait/testStep)
		now += wait + testStep // the next turn, which the next round ends
	}
	require.Equal(t, []int64{2, 2, 2, 0, 0}, waits[:5])
	steps := int64(0)
	for _, w := range waits {
		steps += w
	}
	require.Less(t, steps, int64(40), "of 1000 turns")
}

// One that came once is waited for again.
func TestTurnWaitsForThoseWhoComeBack(t *testing.T) {
	var turns turns
	now, heard := longAgo, int64(0)
	turn := func(passed int64) (wait int64) { // passed others had a turn before this one
		heard += passed
		now += 100 * testStep
		heard++
		endedAt(&turns, now, 1, heard)
		return max(0, dueAt(&turns, now, heard)-now)
	}
	for range 3 {
		require.Equal(t, testStep, turn(0))
	}
	require.Zero(t, turn(0), "it is taken for gone")
	now += int64(ghostsIgnoredMax)
	require.Equal(t, testStep, turn(0), "and looked for after a while")
	require.Equal(t, testStep, turn(1), "it is back")
	require.Equal(t, testStep, turn(0))
	require.Equal(t, testStep, turn(1))
}
