package sim_test

import (
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// A step is what a call does to a lock at one instant.
type step struct {
	call    *call
	token   int64 // 0: it has none
	n       uint  // of the hold
	acquire bool
	reader  bool
}

// A lockState is what a lock is in the model: its holders, and its last token.
type lockState struct {
	readers uint64 // a bit for each hold
	writer  uint   // 1 + number of the hold
	owner   int    // of the writer
	token   int64
}

// next is the model of a lock. It is a function of its arguments, as Porcupine requires.
func next(s lockState, x step) (bool, lockState) {
	bit := uint64(1) << (x.n % 64)
	switch {
	case x.acquire && x.reader:
		if s.writer != 0 && s.owner != x.call.owner {
			return false, s
		}
		s.readers |= bit
	case x.acquire:
		if s.writer != 0 || s.readers != 0 || x.token != 0 && x.token <= s.token {
			return false, s
		}
		s.writer, s.owner, s.token = x.n+1, x.call.owner, x.token
	case x.reader:
		if s.readers&bit == 0 {
			return false, s
		}
		s.readers &^= bit
	default:
		if s.writer != x.n+1 {
			return false, s
		}
		s.writer, s.owner = 0, 0
	}
	return true, s
}

var lockModel = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(state, input, _ any) (bool, any) {
		ok, s := next(state.(lockState), input.(step))
		return ok, s
	},
}

// checkLinear checks with Porcupine that the history of a lock is one that a lock in a single
// process could have had, where a hold ends when its Unlock is called, or at any time after it
// was lost. Where exclusion was given up there is no such history.
func (w *world) checkLinear(name string) {
	var history []porcupine.Operation
	n := uint(0)
	for _, c := range w.calls {
		for i, p := range c.parts {
			if !c.held || p.name != name {
				continue
			}
			x := step{call: c, n: n, acquire: true, reader: p.kind == reader}
			if !x.reader && !w.tokensMayShrink() {
				x.token = c.tokens[i]
			}
			n++
			history = append(history, porcupine.Operation{ClientId: int(n), Input: x, Call: c.called.seq, Return: c.returned.seq})
			x.acquire = false
			end := porcupine.Operation{ClientId: int(n), Input: x, Call: c.last().seq, Return: math.MaxInt64}
			if c.unlocked.seq != 0 && c.lost.seq == 0 && c.gone.seq == 0 {
				end.Return = c.unlocked.seq
			}
			if end.Call != 0 {
				history = append(history, end)
			}
		}
	}
	if n == 0 || n > 64 || w.given[name] > 0 || slices.ContainsFunc(w.calls, w.steppedLocked) {
		return
	}
	w.linear++
	if porcupine.CheckOperationsTimeout(lockModel, history, 10*time.Second) == porcupine.Illegal {
		w.fail("the history is that of a lock", "Porcupine finds no order for %s", name)
	}
}

// tokensMayShrink reports whether tokens need not grow in this world, which keeps its data.
func (w *world) tokensMayShrink() bool {
	forgotten := slices.ContainsFunc(w.troubles, func(t *trouble) bool { return t.kind == corrupt || t.kind == damage })
	return w.steppedBack(0) > 0 && (w.took > time.Minute || forgotten)
}
