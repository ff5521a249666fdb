package faults_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"
)

// A certainHold is what is certain of one hold: from the return of Lock to the
// earlier of the call of Unlock and the local deadline. Times are of one clock that
// all holders share.
type certainHold struct {
	who      string
	from, to time.Duration
	token    int64 // of a reader aReader: it excludes writers only
}

const aReader = -1

func (c certainHold) String() string {
	return fmt.Sprintf("%s, token %d: %v to %v", c.who, c.token, c.from, c.to)
}

// sweep goes through holds in the order of their beginnings, and returns those that
// begin before an earlier one has ended, and those whose token is not larger than
// all before. Holds that were over before they began are nobody's.
func sweep(holds []certainHold) (overlaps, stale []string) {
	var real []certainHold
	for _, h := range holds {
		if h.from < h.to {
			real = append(real, h)
		}
	}
	slices.SortFunc(real, func(a, b certainHold) int { return cmp.Compare(a.from, b.from) })
	// Those that end last: of holds that exclude all others, and of readers; and the one
	// with the largest token.
	var last, lastRead certainHold
	top := certainHold{token: aReader}
	during := func(h, other certainHold) {
		if other.to > 0 && h.from < other.to {
			overlaps = append(overlaps, fmt.Sprintf("%v, during %v", h, other))
		}
	}
	for _, h := range real {
		during(h, last)
		if h.token == aReader {
			if h.to > lastRead.to {
				lastRead = h
			}
			continue
		}
		during(h, lastRead)
		if h.token <= top.token {
			stale = append(stale, fmt.Sprintf("%v, after %v", h, top))
		}
		if h.to > last.to {
			last = h
		}
		if h.token > top.token {
			top = h
		}
	}
	return overlaps, stale
}

// checkSweep fails the test if certain holds overlap, or their tokens do not grow.
func checkSweep(t testing.TB, holds []certainHold) {
	t.Helper()
	overlaps, stale := sweep(holds)
	for _, o := range overlaps[:min(10, len(overlaps))] {
		t.Error("two certain holds at once:", o)
	}
	for _, o := range stale[:min(10, len(stale))] {
		t.Error("a token that is not larger:", o)
	}
	if n := len(overlaps) + len(stale); n > 0 {
		t.Errorf("%d overlaps and %d tokens out of order in %d holds", len(overlaps), len(stale), len(holds))
	}
}

func TestSweepSeesOverlapsAndTokensOutOfOrder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name            string
		holds           []certainHold
		overlaps, stale int
	}{
		{name: "none"},
		{name: "one", holds: []certainHold{{"a", 1, 5, 1}}},
		{name: "one after the other", holds: []certainHold{{"b", 5, 9, 2}, {"a", 1, 5, 1}}},
		{name: "two at once", holds: []certainHold{{"a", 1, 5, 1}, {"b", 4, 9, 2}}, overlaps: 1},
		{name: "within a long one", holds: []certainHold{{"a", 1, 50, 1}, {"b", 4, 9, 2}, {"c", 10, 11, 3}}, overlaps: 2},
		{name: "over before it began", holds: []certainHold{{"a", 1, 5, 1}, {"b", 4, 3, 2}, {"c", 2, 2, 0}}},
		{name: "an old token", holds: []certainHold{{"a", 1, 2, 7}, {"b", 3, 4, 6}, {"c", 5, 6, 8}}, stale: 1},
		{name: "readers", holds: []certainHold{{"a", 1, 9, aReader}, {"b", 2, 3, aReader}, {"c", 9, 10, 1}, {"d", 10, 11, aReader}}},
		{name: "a writer among readers", holds: []certainHold{{"a", 1, 9, aReader}, {"b", 2, 3, aReader}, {"c", 8, 10, 1}}, overlaps: 1},
		{name: "a reader during a write", holds: []certainHold{{"c", 1, 10, 1}, {"a", 2, 3, aReader}, {"b", 9, 11, aReader}}, overlaps: 2},
		{name: "the same token", holds: []certainHold{{"a", 1, 2, 7}, {"b", 3, 4, 7}}, stale: 1},
	} {
		overlaps, stale := sweep(c.holds)
		if len(overlaps) != c.overlaps || len(stale) != c.stale {
			t.Errorf("%s: overlaps %q, tokens out of order %q; want %d and %d", c.name, overlaps, stale, c.overlaps, c.stale)
		}
	}
}
