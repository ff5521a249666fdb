package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/rueidis"
)

const slots = 16384

// cluster says what kind of deployment it is, and looks at a cluster as a whole.
func (e *Exam) cluster(ctx context.Context) {
	switch e.client.Mode() {
	case rueidis.ClientModeSentinel:
		e.say(OK, "cluster", "none; Sentinel names the primary", "")
		return
	case rueidis.ClientModeStandalone:
		e.say(OK, "cluster", "none", "")
		return
	}
	reply, err := e.client.Do(ctx, e.client.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		e.say(Problem, "cluster", "CLUSTER SLOTS is refused: "+err.Error(), "allow +cluster|slots")
		return
	}
	covered, where := int64(0), map[string]bool{}
	for _, r := range reply {
		if span, err := r.ToArray(); err == nil && len(span) > 2 {
			from, _ := span[0].AsInt64()
			to, _ := span[1].AsInt64()
			covered += to - from + 1
			where[span[2].String()] = true
		}
	}
	if covered < slots {
		e.say(Problem, "cluster", fmt.Sprintf("%d of %d slots have no server", slots-covered, slots), "redis-cli --cluster fix")
	} else {
		e.say(OK, "cluster", fmt.Sprintf("%d primaries have all slots", len(where)), "")
	}
	e.members(ctx)
	if e.sharded(ctx) {
		e.say(OK, "sharded pub/sub", "messages of a lock stay at its node", "")
	} else {
		e.say(Note, "sharded pub/sub", "none: each message goes to all nodes", "Redis 7.0 has it")
	}
}

// members looks for servers that have failed.
func (e *Exam) members(ctx context.Context) {
	text, err := e.client.Do(ctx, e.client.B().ClusterNodes().Build()).ToString()
	if err != nil {
		return // the permissions say so
	}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 2 && strings.Contains(f[2], "fail") {
			e.say(Warning, "cluster", f[1]+" does not answer the other servers: "+f[2], "")
		}
	}
}

// sharded reports whether the deployment is a cluster with sharded pub/sub, which relock then
// uses.
func (e *Exam) sharded(ctx context.Context) bool {
	if e.client.Mode() != rueidis.ClientModeCluster {
		return false
	}
	return e.client.Do(ctx, e.client.B().PubsubShardnumsub().Build()).Error() == nil
}
