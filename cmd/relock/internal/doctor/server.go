package doctor

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/cmd/relock/internal/locks"
)

// tested says what relock is tested with.
const tested = "relock is tested with Redis 6.2, 7.0, 8.2 and 8.6, and Valkey 8.1 and 9.1"

// info is the reply of INFO, field by field.
type info map[string]string

func (i info) number(field string) int64 {
	n, _ := strconv.ParseInt(i[field], 10, 64)
	return n
}

func parseInfo(text string) info {
	i := make(info)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			i[name] = value
		}
	}
	return i
}

// protocol finds out whether the server, or a proxy before it, knows only the older protocol, with
// which locks work too.
func (e *Exam) protocol(ctx context.Context) {
	err := e.client.Do(ctx, e.client.B().Arbitrary("HELLO", "3").Build()).Error()
	if err == nil {
		return
	}
	if text := strings.ToLower(err.Error()); strings.Contains(text, "unknown command") ||
		strings.Contains(text, "noproto") {
		e.say(Note, "protocol", "RESP2 alone: a session listens on a connection of its own",
			"clients need DisableCache")
	}
}

// servers looks at each server that can have locks.
func (e *Exam) servers(ctx context.Context) {
	nodes, err := locks.Primaries(ctx, e.client)
	if err != nil {
		e.say(Problem, "servers", err.Error(), "connect to a primary")
		return
	}
	for _, n := range nodes {
		where := ""
		if len(nodes) > 1 {
			where = n.Address + ": "
		}
		text, err := n.Client.Do(ctx, n.Client.B().Info().Build()).ToString()
		if err != nil {
			e.say(Warning, "version", where+"INFO is refused: "+err.Error(), "allow +info to have the server examined")
			continue
		}
		i := parseInfo(text)
		e.version(where, i)
		e.willing(ctx, where, n.Client, i)
		e.eviction(where, i)
		e.replicas(where, i)
		e.persistence(where, i)
		e.room(where, i)
	}
}

func (e *Exam) version(where string, i info) {
	for _, other := range []struct{ field, name string }{
		{"dragonfly_version", "Dragonfly"}, {"valkey_version", "Valkey"},
	} {
		v := i[other.field]
		switch {
		case v == "":
		case other.name == "Valkey":
			e.say(OK, "version", where+"Valkey "+v, "")
			return
		default:
			e.say(Warning, "version", where+other.name+" "+v, tested)
			return
		}
	}
	v := i["redis_version"]
	if before(v, 6, 2) {
		e.say(Warning, "version", where+"Redis "+v+" is old", tested)
		return
	}
	e.say(OK, "version", where+"Redis "+v, "")
}

// before reports whether a version is older than major.minor.
func before(version string, major, minor int) bool {
	var a, b int
	if n, _ := fmt.Sscanf(version, "%d.%d", &a, &b); n < 2 {
		return false
	}
	return a < major || a == major && b < minor
}

func (e *Exam) eviction(where string, i info) {
	policy := i["maxmemory_policy"]
	const advice = "set maxmemory-policy to noeviction"
	switch {
	case policy == "":
		e.say(Note, "eviction", where+"the server does not say what it deletes when memory is full", "make sure that it is nothing")
	case policy == "noeviction":
		e.say(OK, "eviction", where+policy, "")
	case i.number("maxmemory") > 0:
		e.say(Problem, "eviction", where+"when memory is full the server deletes keys, and so locks that are held: "+policy, advice)
	default:
		e.say(Warning, "eviction", where+"if it had a maxmemory the server would delete locks: "+policy, advice)
	}
}

func (e *Exam) replicas(where string, i info) {
	if i["role"] == "slave" {
		e.say(Problem, "replicas", where+"this server is a replica, which cannot have locks", "connect to the primary, "+
			"or through Sentinel with master_set=NAME")
		return
	}
	n := i.number("connected_slaves")
	for k := range n {
		of := make(info)
		for field := range strings.SplitSeq(i[fmt.Sprintf("slave%d", k)], ",") {
			name, value, _ := strings.Cut(field, "=")
			of[name] = value
		}
		who := where + "replica " + of["ip"] + ":" + of["port"]
		if of["state"] != "online" {
			e.say(Warning, "replicas", who+" is not in step: "+of["state"], "a failover to it would lose locks")
		} else if lag := of.number("lag"); lag > 10 {
			e.say(Warning, "replicas", fmt.Sprintf("%s was last heard of %d s ago", who, lag), "a failover to it would lose locks")
		}
	}
	switch n {
	case 0:
		e.say(Note, "replicas", where+"none: when this server is gone, so are its locks", "")
	default:
		e.say(OK, "replicas", fmt.Sprintf("%s%d; a failover may still lose what they had not received (see WithReplicas)", where, n), "")
	}
}

// willing finds out whether the server is in a state in which it refuses everything, also a PING.
func (e *Exam) willing(ctx context.Context, where string, c rueidis.Client, i info) {
	why, failed := "its last snapshot (BGSAVE) has failed", i["rdb_last_bgsave_status"] == "err"
	if i["aof_last_write_status"] == "err" {
		why, failed = "it cannot write its append-only file", true
	}
	refusals := map[string]Finding{
		"MISCONF": {Check: "persistence", Text: "the server refuses to write since " + why + " (MISCONF): no lock can be " +
			"acquired, and those that are held end with their leases",
			Advice: "make room on its disk, and see its log; or CONFIG SET stop-writes-on-bgsave-error no"},
		"MASTERDOWN": {Check: "replicas", Text: "this replica has lost its primary, and answers nothing (MASTERDOWN)",
			Advice: "connect to the primary"},
		"LOADING": {Check: "persistence", Text: "the server is still loading its data (LOADING)", Advice: "wait"},
		"BUSY":    {Check: "scripts", Text: "a script keeps the server busy (BUSY)", Advice: "wait, or SCRIPT KILL"},
	}
	var reply *rueidis.RedisError
	if errors.As(c.Do(ctx, c.B().Ping().Build()).Error(), &reply) {
		code, _, _ := strings.Cut(reply.Error(), " ")
		if f, ok := refusals[code]; ok {
			e.shut = true
			e.say(Problem, f.Check, where+f.Text, f.Advice)
			return
		}
	}
	if failed {
		e.say(Warning, "persistence", where+why, "see its log")
	}
}

func (e *Exam) persistence(where string, i info) {
	switch {
	case i.number("aof_enabled") == 0:
		e.say(Note, "persistence", where+"no append-only file: a restart loses locks that are held", "set appendonly to yes if it must not")
	default:
		e.say(OK, "persistence", where+"append-only file", "")
	}
}

// room looks at what may soon be used up.
func (e *Exam) room(where string, i info) {
	if limit, used := i.number("maxmemory"), i.number("used_memory"); limit > 0 && used > limit/10*9 {
		e.say(Warning, "memory", fmt.Sprintf("%s%d %% of maxmemory are used; when it is full no lock can be acquired", where, used*100/limit), "")
	}
	if limit, used := i.number("maxclients"), i.number("connected_clients"); limit > 0 && used > limit/10*9 {
		e.say(Warning, "clients", fmt.Sprintf("%s%d of %d connections are used", where, used, limit), "raise maxclients")
	}
}
