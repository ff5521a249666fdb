package doctor

import (
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// probe is a harmless use of a command.
type probe struct {
	name     string // as in a rule of an ACL
	why      string // empty if it only cleans up
	severity Severity
	needs    string // only if this is allowed
	key      string
	args     []string // the command, then what follows the key
}

// probes returns one probe for each command that relock uses, those that create something last.
// A test compares the names with the rule in docs/operating.md.
func (e *Exam) probes(k keys) []probe {
	const (
		scripts, tests = "running scripts", "testing a lock"
		holds, leases  = "holding locks", "leases"
		tokens         = "fencing tokens"
		queues         = "FairMutex"
		readers        = "RWMutex"
		del            = "+del"
	)
	future := strconv.FormatInt(time.Now().Add(time.Minute).UnixMilli(), 10)
	must := func(why, needs, key, name string, args ...string) probe {
		return probe{name, why, Problem, needs, key, append([]string{name}, args...)}
	}
	list := []probe{
		{"eval", scripts, Problem, "", "", []string{"EVAL", "return 1", "0"}},
		{"evalsha", scripts, Problem, "", "", []string{"EVALSHA", "0000000000000000000000000000000000000000", "0"}},
		must("the client", "", "", "ping"),
		must(tokens, "", "", "time"),
		{"info", "telling deployments apart", Warning, "", "", []string{"INFO", "server"}},
		{"role", "noticing a failover", Warning, "", "", []string{"ROLE"}},
		{"pubsub|numsub", "finding waiters that are gone", Warning, "", "", []string{"PUBSUB NUMSUB", "relock"}},
		must(tests, "", k.lock, "exists"), must(tests, "", k.lock, "pttl"),
		must(leases, "", k.lock, "pexpire", "5000"), must(leases, "", k.lock, "pexpireat", future),
		must(holds, "", k.lock, "del"),
		must(holds, "", k.lock, "hget", "f"), must(holds, "", k.lock, "hdel", "f"), must(holds, "", k.lock, "hlen"),
		must(holds, "", k.lock, "hkeys"), must(holds, "", k.lock, "hexists", "f"), must(holds, "", k.lock, "hgetall"),
		{"hrandfield", "telling locks from other data", Warning, "", k.lock, []string{"HRANDFIELD"}},
		must(tokens, "", k.fence, "get"),
		must(queues, "", k.queue, "zrem", "m"), must(queues, "", k.queue, "zcard"), must(queues, "", k.queue, "zscore", "m"),
		must(queues, "", k.queue, "zrange", "0", "0"), must(queues, "", k.queue, "zrangebyscore", "0", "0"),
		must(queues, "", k.queue, "zcount", "0", "0"),
		must(holds, del, k.lock, "hset", "f", "1"), must("", del, k.lock, "del"),
		must(tokens, del, k.fence, "set", "1", "PX", "5000"), must("", del, k.fence, "del"),
		must(queues, del, k.queue, "zadd", "1", "m"), must("", del, k.queue, "del"),
		{"scan", "relock list and relock top", Note, "", "", []string{"SCAN", "0", "COUNT", "1"}},
		{"hscan", "relock list and relock top", Note, "", k.lock, []string{"HSCAN", "0"}},
	}
	if e.client.Mode() == rueidis.ClientModeCluster {
		list = append(list,
			must("the cluster", "", "", "asking"),
			probe{"cluster|slots", "the cluster", Problem, "", "", []string{"CLUSTER SLOTS"}},
			probe{"cluster|nodes", "the cluster", Warning, "", "", []string{"CLUSTER NODES"}},
			probe{"cluster|shards", "the client with Redis 8 or Valkey", Note, "", "", []string{"CLUSTER SHARDS"}},
			probe{"pubsub|shardnumsub", "finding waiters that are gone", Note, "", "", []string{"PUBSUB SHARDNUMSUB"}})
	}
	return list
}
