package interop_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
)

// Redisson's fair queue and relock's do not know of each other: whoever waits in the one
// must not starve because the other is never empty.
func TestFairWaitersOfNeitherSideStarve(t *testing.T) {
	t.Parallel()
	eachRedisson(t, func(t *testing.T, version string) {
		at := single(redistest.Start(t), 30*time.Second)
		busy := map[string][]*peer{"Go": {at.start(t, ""), at.start(t, "")}, "Java": {at.start(t, version), at.start(t, version)}}
		warmUp(busy["Java"], "fair")
		for _, side := range []string{"Go", "Java"} {
			rare := busy["Java"][0]
			if side == "Java" {
				rare = busy["Go"][0]
			}
			var crowd []*call
			for _, p := range busy[side] {
				for _, thread := range []string{"a", "b"} {
					crowd = append(crowd, p.begin(thread, "hammer", "fair", "crowded", side, 3000, 0))
				}
			}
			var waits []time.Duration
			for done := false; !done; {
				a := rare.begin("rare", "lock", "fair", "crowded").must()
				waits = append(waits, time.Duration(a.end-a.start))
				rare.do("rare", "unlock", "fair", "crowded")
				select {
				case line := <-crowd[0].c:
					crowd[0].c <- line
					done = true
				case <-time.After(50 * time.Millisecond):
				}
			}
			for _, c := range crowd {
				c.must()
			}
			p50, most := quantile(waits, 0.5), quantile(waits, 1)
			report.add("starvation", fmt.Sprintf("one %v among four busy ones of %s", rare, side), version, millis(p50), millis(most), len(waits))
			if p50 > time.Second {
				t.Errorf("%v waits %v amid a crowd of %s", rare, p50, side)
			}
		}
	})
}
