package faults_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A certainHold is what is certain of one hold: from the return of Lock to the
// earlier of the call of Unlock and the local deadline. Times are of one clock that
// all holders share.
type certainHold struct {
	who      string
	from, to time.Duration
	token    int64
}

// Holds without a fencing token.
const (
	aReader = -1 // excludes writers only
	noToken = 0
)

func (c certainHold) String() string {
	return fmt.Sprintf("%s, token %d: %v to %v", c.who, c.token, c.from, c.to)
}

// sweep goes through holds in the order of their beginnings, and returns those that
// begin before an earlier one has ended, and those whose token is not larger than
// all before. Holds that were over before they began are nobody's.
func sweep(holds []certainHold) (overlaps, stale []string) {
	holds = slices.DeleteFunc(slices.Clone(holds), func(h certainHold) bool { return h.from >= h.to })
	slices.SortFunc(holds, func(a, b certainHold) int { return cmp.Compare(a.from, b.from) })
	var last, lastRead, top certainHold // that end last, and the one with the largest token
	for _, h := range holds {
		for _, other := range []certainHold{last, lastRead} {
			if h.from < other.to && (h.token != aReader || other.token != aReader) {
				overlaps = append(overlaps, fmt.Sprintf("%v, during %v", h, other))
			}
		}
		if h.token > noToken && h.token <= top.token {
			stale = append(stale, fmt.Sprintf("%v, after %v", h, top))
		}
		if h.token == aReader && h.to > lastRead.to {
			lastRead = h
		} else if h.token != aReader && h.to > last.to {
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
	assert.Empty(t, overlaps[:min(10, len(overlaps))], "%d times two certain holds at once, of %d", len(overlaps), len(holds))
	assert.Empty(t, stale[:min(10, len(stale))], "%d tokens that are not larger, of %d", len(stale), len(holds))
}

func TestSweepSeesOverlapsAndTokensOutOfOrder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		holds           []certainHold
		overlaps, stale int
	}{
		"one after the other":    {[]certainHold{{"b", 5, 9, 2}, {"a", 1, 5, 1}}, 0, 0},
		"within a long one":      {[]certainHold{{"a", 1, 50, 1}, {"b", 4, 9, 2}, {"c", 10, 11, 3}}, 2, 0},
		"over before it began":   {[]certainHold{{"a", 1, 5, 1}, {"b", 4, 3, 2}, {"c", 2, 2, 0}}, 0, 0},
		"old tokens":             {[]certainHold{{"a", 1, 2, 7}, {"b", 3, 4, 6}, {"c", 5, 6, 7}, {"d", 7, 8, 8}}, 0, 2},
		"no tokens":              {[]certainHold{{"a", 1, 3, noToken}, {"b", 3, 5, noToken}, {"c", 4, 6, noToken}}, 1, 0},
		"readers":                {[]certainHold{{"a", 1, 9, aReader}, {"b", 2, 3, aReader}, {"c", 9, 10, 1}, {"d", 10, 11, aReader}}, 0, 0},
		"a writer among readers": {[]certainHold{{"a", 1, 9, aReader}, {"b", 2, 3, aReader}, {"c", 8, 10, 1}}, 1, 0},
		"a reader during writes": {[]certainHold{{"c", 1, 10, 1}, {"a", 2, 3, aReader}, {"b", 9, 11, aReader}}, 2, 0},
	} {
		overlaps, stale := sweep(c.holds)
		assert.Len(t, overlaps, c.overlaps, name)
		assert.Len(t, stale, c.stale, name)
	}
}
