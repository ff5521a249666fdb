package test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

// finding is what doctor --json prints.
type finding struct{ Severity, Check, Text, Advice string }

// examined runs doctor, which must end with a status unless that is -1, and returns what it found.
func examined(t testing.TB, address string, status int, args ...string) (all []finding) {
	t.Helper()
	r := start(t, command(address, append([]string{"doctor", "--json"}, args...)...))
	if <-r.ended; status >= 0 {
		r.ends(status)
	}
	require.NoError(t, json.Unmarshal([]byte(r.out.String()), &all))
	return all
}

// find fails the test if nothing of a severity says a text.
func find(t testing.TB, all []finding, severity, text string) {
	t.Helper()
	require.True(t, slices.ContainsFunc(all, func(f finding) bool {
		return f.Severity == severity && strings.Contains(f.Check+" "+f.Text, text)
	}), "no %s %q in %+v", severity, text, all)
}

func TestDoctorSaysWhatIsWrong(t *testing.T) {
	s := server(t)
	for _, c := range []struct {
		set            []string
		status         int
		severity, text string
	}{
		{nil, 0, "ok", "version "},
		{nil, 0, "ok", "eviction noeviction"},
		{nil, 0, "note", "replicas none"},
		{nil, 0, "note", "persistence no append-only file"},
		{nil, 0, "ok", "cluster none"},
		{nil, 0, "ok", "clock the server's is"},
		{nil, 0, "ok", "pub/sub a waiter got the lock"},
		{nil, 0, "ok", "ConnWriteTimeout 2s, Dialer.KeepAlive 1s, ConnLifetime none"},
		{[]string{"CONFIG", "SET", "appendonly", "yes"}, 0, "ok", "persistence append-only file"},
		{[]string{"CONFIG", "SET", "maxmemory-policy", "volatile-ttl"}, 1, "warning", "volatile-ttl"},
		{[]string{"CONFIG", "SET", "maxmemory", "1gb"}, 2, "problem", "eviction when memory is full"},
		{[]string{"CONFIG", "SET", "maxmemory-policy", "noeviction"}, 0, "ok", "eviction noeviction"},
		{[]string{"ACL", "SETUSER", "default", "-role"}, 1, "warning", "+role, for noticing a failover: not allowed"},
		{[]string{"ACL", "SETUSER", "default", "+role", "-hrandfield"}, 1, "warning", "+hrandfield, for telling locks"},
		{[]string{"ACL", "SETUSER", "default", "+hrandfield", "-ping"}, 2, "problem", "+ping, for the client: not allowed"},
		{[]string{"ACL", "SETUSER", "default", "+ping", "-hset"}, 2, "problem", "+hset, for holding locks: not allowed"},
		{[]string{"ACL", "SETUSER", "default", "+@all", "-scan"}, 0, "note", "+scan, for relock list and relock top: not allowed"},
		{[]string{"ACL", "SETUSER", "default", "+@all", "resetchannels"}, 2, "problem", "&relock_session:*, for subscribing"},
		{[]string{"ACL", "SETUSER", "default", "allchannels", "-subscribe"}, 2, "problem", "subscribing"},
	} {
		if c.set != nil {
			admin(t, s, c.set...)
		}
		find(t, examined(t, s.Addr(), c.status), c.severity, c.text)
	}
	for _, key := range admin(t, s, "KEYS", "*").([]any) { // it leaves nothing but a token, which expires
		require.Regexp(t, "^relock_fence:", key)
		require.Positive(t, admin(t, s, "PTTL", key.(string)), key)
	}
	find(t, examined(t, "localhost:1", 2), "problem", "connect cannot connect")
	text := run(t, redistest.Start(t), "doctor").ends(0)
	require.Regexp(t, `(?m)^ok +permissions +all \d+ that were tried, with a lock named relock-doctor:\w+$`, text)
	require.NotContains(t, text, "+hset")
}

// The moments in which doctor is needed most: what the server refuses then must not end doctor itself.
func TestDoctorOutlivesWhatTheServerRefuses(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--save", "3600 1")
	admin(t, s, "SET", "x", "1")
	require.NoError(t, os.RemoveAll(admin(t, s, "CONFIG", "GET", "dir").([]any)[1].(string)))
	admin(t, s, "CONFIG", "SET", "stop-writes-on-bgsave-error", "yes")
	_, _ = s.Do("BGSAVE")
	redistest.Eventually(t, soon, "a snapshot that fails", func() bool {
		return s.Info("persistence")["rdb_last_bgsave_status"] == "err"
	})
	find(t, examined(t, s.Addr(), 2), "problem", "persistence the server refuses to write since its last snapshot (BGSAVE) has failed")
	admin(t, s, "CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
	find(t, examined(t, s.Addr(), 1), "warning", "persistence its last snapshot (BGSAVE) has failed")

	primary, replicas := redistest.StartReplicas(t, 1, "--replica-serve-stale-data", "no")
	primary.Kill()
	redistest.Eventually(t, soon, "a replica without its primary", func() bool {
		return replicas[0].Info("replication")["master_link_status"] == "down"
	})
	find(t, examined(t, replicas[0].Addr(), 2), "problem", "replicas this replica has lost its primary")

	renamed := redistest.Start(t, "--rename-command", "PING", "ITSPING")
	find(t, examined(t, renamed.Addr(), 2), "problem", "+ping, for the client: the server does not know it")
}

// What a server, a provider or a proxy cannot do is said in words.
func TestDoctorSaysPlainlyWhatCannotWork(t *testing.T) {
	t.Parallel()
	lacks := func(commands ...string) string {
		var args []string
		for _, c := range commands {
			args = append(args, "--rename-command", c, "")
		}
		return redistest.Start(t, args...).Addr()
	}
	oneKey := redistest.NewFilter(t, redistest.Start(t), func(args []string) string {
		if strings.HasPrefix(strings.ToUpper(args[0]), "EVAL") && len(args) > 2 && len(args[2]) == 1 && args[2] > "1" {
			return "ERR only one key is supported"
		}
		return ""
	})
	type c struct {
		address        string
		status         int
		severity, text string
	}
	all := []c{
		{lacks("EVAL"), 2, "problem", "trial relock: NewSession: running a script: this server, or a proxy before it, has no EVAL"},
		{lacks("EVAL"), 2, "problem", "+eval, for running scripts: the server does not know it"},
		{lacks("PEXPIRE"), 2, "problem", "a lock is a lease, and needs keys that expire"},
		{lacks("PUBSUB"), 1, "warning", "+pubsub|numsub, for finding waiters that are gone: the server does not know it"},
		{lacks("HELLO"), 0, "note", "protocol RESP2 alone"},
		{oneKey, 2, "problem", "does not run scripts with several keys of one slot"},
	}
	if redistest.Has(t, redistest.LuaModule) {
		s := redistest.Start(t, "--enable-module-command", "local")
		admin(t, s, "MODULE", "UNLOAD", "lua")
		all = append(all,
			c{s.Addr(), 2, "problem", "+eval, for running scripts: the server runs no Lua scripts"},
			c{s.Addr(), 2, "problem", "trial relock: NewSession: running a script: this server runs no Lua scripts"})
	}
	for _, c := range all {
		find(t, examined(t, c.address, c.status), c.severity, c.text)
	}
}

func TestDoctorKnowsReplicasAndClusters(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.StartReplicas(t, 1)
	find(t, examined(t, primary.Addr(), 0), "ok", "replicas 1;")
	find(t, examined(t, replicas[0].Addr(), 2), "problem", "this server is a replica")

	cluster := redistest.StartCluster(t, 3, 0)
	all := examined(t, cluster.Nodes()[0].Addr(), 0)
	find(t, all, "ok", "cluster 3 primaries have all slots")
	find(t, all, "ok", "ClusterOption.ShardsRefreshInterval 5s")
	if redistest.Has(t, redistest.ShardedPubSub) {
		find(t, all, "ok", "sharded pub/sub")
	}
	for _, n := range cluster.Nodes() {
		find(t, all, "ok", n.Addr()+": noeviction")
	}
}

// summaryOf returns what doctor says of all permissions if some are missing. It counts those that
// it has named.
func summaryOf(t testing.TB, all []finding) (text, advice string) {
	t.Helper()
	missing := 0
	for _, f := range all {
		if f.Check == "permission" && f.Severity != "ok" {
			missing++
		}
		if f.Check == "permissions" {
			require.Contains(t, f.Text, fmt.Sprintf(": the %d above are missing", missing))
			return f.Text, f.Advice
		}
	}
	t.Fatalf("no summary in %+v", all)
	return "", ""
}

// INFO shows a Lock and Unlock as doctor's help says: 10, or 11 if the last token is ahead of the
// clock. INFO counts the session's other commands too, so the median is compared.
func TestPairShowsInInfoAsDoctorSays(t *testing.T) {
	s := server(t)
	help := start(t, command("", "doctor", "--help")).ends(0)
	said := regexp.MustCompile(`\bsends (\d+) commands \(EVALSHA\), and shows as (\d+) to (\d+)\.`).FindStringSubmatch(help)
	require.NotNil(t, said, help)
	m := kit.NewSession(t, s).Mutex("goods")
	hold(t, m)() // the server learns the scripts
	var sent, all []int
	for range 31 {
		before := s.CommandStats()
		hold(t, m)()
		after := s.CommandStats()
		n := 0
		for name, calls := range after {
			if name != "info" {
				n += int(calls - before[name])
			}
		}
		sent, all = append(sent, int(after["evalsha"]-before["evalsha"])), append(all, n)
	}
	slices.Sort(sent)
	slices.Sort(all)
	require.Equal(t, said[1], strconv.Itoa(sent[15]), "%v", sent)
	least, _ := strconv.Atoi(said[2])
	most, _ := strconv.Atoi(said[3])
	require.LessOrEqual(t, least, all[15], "%v", all)
	require.GreaterOrEqual(t, most, all[15], "%v", all)
}

// A user with the rule of docs/operating.md has all that locks need, for names that start so; doctor
// tries every command of the rule.
func TestDoctorAgreesWithTheDocumentedPermissions(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/operating.md")
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^ACL SETUSER .*$`).FindString(string(text))
	rule := strings.Fields(line)
	s := redistest.Start(t)
	admin(t, s, rule...)
	address := "redis://relock:password@" + s.Addr()
	for _, f := range examined(t, address, 0, "goods:") {
		name, _, _ := strings.Cut(f.Text, ",")
		require.True(t, f.Check != "permission" || f.Severity == "ok" || strings.HasSuffix(name, "scan"), "%+v", f)
	}
	all := examined(t, address, 2)
	find(t, all, "problem", "~…, for the lock itself: no access")
	summary, advice := summaryOf(t, all)
	require.Regexp(t, `^\d+ were tried, with a lock named relock-doctor:\w+: `, summary)
	require.Contains(t, advice, "check those: relock doctor PREFIX")
	summary, advice = summaryOf(t, examined(t, address, 2, "--prefix", "lock:", "goods:"))
	require.Contains(t, summary, `with a lock whose name starts with "lock:goods:": `)
	require.Equal(t, "relock acl, with the same prefix, prints the rule that this user needs", advice)
	for _, word := range rule {
		name, ok := strings.CutPrefix(word, "+")
		removable := !strings.Contains(name, "|") || redistest.Has(t, redistest.FineRules)
		if ok && removable && name != "unsubscribe" {
			admin(t, s, "ACL", "SETUSER", "relock", "-"+name)
			require.True(t, slices.ContainsFunc(examined(t, address, -1, "goods:"), func(f finding) bool {
				return f.Severity == "warning" || f.Severity == "problem"
			}), "nothing is wrong without %s", word)
			admin(t, s, "ACL", "SETUSER", "relock", word)
		}
	}
}
