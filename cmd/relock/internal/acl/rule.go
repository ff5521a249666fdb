// Package acl has the rule that a user of Redis needs for locks.
package acl

import (
	"fmt"
	"strings"
	"unicode"
)

// A Server is what a rule depends on.
type Server struct {
	Cluster bool
	Sharded bool // pub/sub, from Redis 7.0 on
	SetInfo bool // CLIENT SETINFO, from Redis 7.2 on
	Shards  bool // its clients send CLUSTER SHARDS: Redis 8 and Valkey
}

// Needs are what else the user does.
type Needs struct {
	User     string
	Replicas bool // WithReplicas
	List     bool // relock list and relock top
	Tags     bool // names have a hash tag behind the prefix
}

const commands = "+eval +evalsha +info +ping +role +subscribe +unsubscribe +publish +pubsub|numsub +time +exists +pttl +pexpire " +
	"+pexpireat +get +set +del +hset +hget +hdel +hlen +hkeys +hrandfield +hexists +hgetall +zadd +zrem +zcard +zscore +zrange " +
	"+zrangebyscore +zcount"

// Check returns what is wrong with a prefix or a user's name for a rule.
func Check(text string) error {
	if text == "" || strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r) || strings.ContainsRune("\"'\\", r)
	}) {
		return fmt.Errorf("%q: a rule cannot have an empty text, blanks, quotes or backslashes", text)
	}
	return nil
}

// Rule returns the words of ACL SETUSER for locks whose names start with prefix. It leaves the password as it is.
func Rule(s Server, n Needs, prefix string) []string {
	p := strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(prefix)
	words := []string{"ACL", "SETUSER", n.User, "on", "resetkeys", "~" + p + "*"}
	var channels []string
	add := func(begin string) {
		words = append(words, "~relock_fence:"+begin+"*", "~relock_queue:"+begin+"*", "~relock_rwqueue:"+begin+"*",
			"~relock_rdqueue:"+begin+"*")
		channels = append(channels, "&redisson_lock__channel:"+begin+"*", "&redisson_rwlock:"+begin+"*", "&relock_grant:"+begin+"*")
	}
	tagged := strings.Contains(prefix, "{")
	if !tagged {
		words = append(words, "~{"+p+"*}:*:rwlock_timeout:*")
		add("{" + p)
	}
	if tagged || n.Tags {
		add(p)
	}
	words = append(append(words, "~relock_session:*", "resetchannels"), channels...)
	words = append(words, "&relock_session:*", "-@all")
	words = append(words, strings.Fields(commands)...)
	words = append(words, "+client|info", "+client|tracking")
	for _, more := range []struct {
		needed bool
		words  string
	}{
		{s.SetInfo, "+client|setinfo"},
		{s.Cluster, "+asking +cluster|slots +cluster|nodes"},
		{s.Cluster && s.Sharded, "+pubsub|shardnumsub +spublish +ssubscribe +sunsubscribe"},
		{s.Cluster && s.Shards, "+cluster|shards"},
		{n.Replicas, "+wait"},
		{n.Replicas && s.Cluster, "+punsubscribe +discard"},
		{n.List, "+scan +hscan"},
	} {
		if more.needed {
			words = append(words, strings.Fields(more.words)...)
		}
	}
	return words
}
