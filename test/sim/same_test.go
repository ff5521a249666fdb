package sim_test

import (
	"crypto/sha256"
	"fmt"
	"hash/fnv"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/test/spec"
)

// ids are hold ids and sessions, which are random.
var ids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(:-?\d+)?`)

// trace returns what the scripts did on each server, one line for each: without ids, and in
// alphabetical order where the time is the same.
func (w *world) trace() (all []string) {
	for i, r := range w.recorders {
		var lines []string
		for _, e := range r.events {
			if e.Name != spec.Begins && e.Name != spec.Ends { // which is when the test looks
				line := strings.ReplaceAll(e.String(), "\n", ";")
				lines = append(lines, fmt.Sprint("server ", i, ": ", ids.ReplaceAllString(line, "ID")))
			}
		}
		slices.Sort(lines)
		all = append(all, lines...)
	}
	return all
}

// A seed of a world with one server mostly gives the same trace twice, so that a failure can be
// repeated. What still differs: which of the goroutines that are ready at the same instant runs
// first. Where that decides who gets the lock, or which server of a Redlock answers first, what
// follows differs as well. That most agree shows that nothing else does: no clock but the
// bubble's, no random number, no order of a map.
func TestSameSeedSameTrace(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer func(was func(int64) int64) { timing.Random = was }(timing.Random)
	timing.Random = func(n int64) int64 { // depends on the time, not on the order of calls
		h := fnv.New64a()
		fmt.Fprint(h, time.Now().UnixNano(), n)
		return int64(h.Sum64() >> 1 % uint64(n))
	}
	same, all, different := 0, 0, ""
	for seed := *firstSeed; seed < *firstSeed+min(*seeds, 20); seed++ {
		p := newPlan(seed)
		if p.servers > 1 {
			continue
		}
		of := keep{selection(nil).orAll(len(p.faults)), selection(nil).orAll(len(p.actors))}
		a, b := run(t, p, of).trace(), run(t, newPlan(seed), of).trace()
		all++
		if sha256.Sum256([]byte(strings.Join(a, "\n"))) == sha256.Sum256([]byte(strings.Join(b, "\n"))) {
			same++
			continue
		}
		for i := range min(len(a), len(b)) {
			if a[i] != b[i] {
				different += fmt.Sprintf("\nseed %d, line %d of %d and %d:\n  %s\n  %s",
					seed, i, len(a), len(b), a[i], b[i])
				break
			}
		}
	}
	fmt.Println(same, "of", all, "seeds have the same trace twice")
	require.GreaterOrEqual(t, 3*same, 2*all, "different:%s", different)
}
