package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/transport"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A tracer is a client that sees which keys a script uses, and which of its places that
// use any are reached.
type tracer struct {
	rueidis.Client
	t     testing.TB
	texts map[string]string          // with a note at each place, by script
	sites map[string]map[int]string  // places not reached yet, by script
	seen  map[string]bool            // places that were reached in some script, by what stands there
	stray map[string]map[string]bool // keys that were used and not declared, by script; true: once not by pcall
	ran   map[string]bool            // scripts
}

const traceKey = "trace"

var site = regexp.MustCompile(`\b(?:redis\.)?(p?call)\(`)

func newTracer(t testing.TB, client rueidis.Client) *tracer {
	tr := &tracer{
		Client: client, t: t, texts: map[string]string{}, sites: map[string]map[int]string{}, seen: map[string]bool{},
		stray: map[string]map[string]bool{}, ran: map[string]bool{},
	}
	for name, s := range scripts.sets[Plainly] {
		tr.sites[name], tr.stray[name] = map[int]string{}, map[string]bool{}
		n := 0
		text := site.ReplaceAllStringFunc(s.Text, func(call string) string {
			n++
			return fmt.Sprintf("traced(%d, '%s', ", n, site.FindStringSubmatch(call)[1])
		})
		for i, at := range site.FindAllStringIndex(s.Text, -1) {
			tr.sites[name][i+1], _, _ = strings.Cut(s.Text[at[0]:], "\n")
		}
		tr.texts[name] = `local function traced(site, how, ...)
  local args = {site, how, ...}
  for i, arg in ipairs(args) do args[i] = tostring(arg) end
  redis.call('rpush', '` + traceKey + `', cjson.encode(args))
  return redis[how](...)
end
` + text
	}
	return tr
}

func (tr *tracer) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	words := slices.Clone(cmd.Commands())
	name, ok := scriptCalled(words)
	if !ok {
		return tr.Client.Do(ctx, cmd)
	}
	n, _ := strconv.Atoi(words[2])
	r := tr.run("EVAL", append([]string{tr.texts[name]}, words[2:]...)...)
	tr.judge(name, words[3:3+n])
	return r
}

// scriptCalled returns the script that a command runs, if it runs one.
func scriptCalled(words []string) (name string, ok bool) {
	if words[0] != "EVAL" && words[0] != "EVALSHA" {
		return "", false
	}
	for name, s := range scripts.sets[Plainly] {
		if sha := s.Sha.Load(); words[1] == s.Text || sha != nil && words[1] == *sha {
			return name, true
		}
	}
	return "", false
}

func (tr *tracer) DoMulti(ctx context.Context, cmds ...rueidis.Completed) (rs []rueidis.RedisResult) {
	for _, cmd := range cmds {
		rs = append(rs, tr.Do(ctx, cmd))
	}
	return rs
}

func (tr *tracer) run(command string, args ...string) rueidis.RedisResult {
	return tr.Client.Do(ctx0, tr.Client.B().Arbitrary(command).Args(args...).Build())
}

// judge compares the keys that a script has just used with those that it declared.
func (tr *tracer) judge(name string, declared []string) {
	tr.t.Helper()
	tr.ran[name] = true
	notes, err := tr.run("LRANGE", traceKey, "0", "-1").AsStrSlice()
	assert.NoError(tr.t, err) // not require: a call may run on a goroutine of its own
	tr.run("DEL", traceKey)
	for _, note := range notes {
		var words []string
		if !assert.NoError(tr.t, json.Unmarshal([]byte(note), &words)) {
			continue
		}
		n, _ := strconv.Atoi(words[0])
		if line, ok := tr.sites[name][n]; ok {
			tr.seen[line] = true
			delete(tr.sites[name], n)
		}
		if len(words) == 3 {
			continue // no arguments
		}
		keys, err := tr.run("COMMAND", append([]string{"GETKEYS"}, words[2:]...)...).AsStrSlice()
		if err != nil && !strings.Contains(err.Error(), "no key arguments") {
			tr.t.Errorf("%q: %v", words, err)
		}
		for _, key := range keys {
			if !slices.Contains(declared, key) {
				key = regexp.MustCompile(`\d+`).ReplaceAllString(key, "n")
				tr.stray[name][key] = tr.stray[name][key] || words[1] == "call"
			}
		}
	}
}

// A server may refuse a script that uses a key which it has not declared, unless its
// first line says that it does. Every place of every script is reached; those of the
// functions that it shares with others, there or here.
func TestScriptsDeclareTheirKeysOrSaySo(t *testing.T) {
	t.Parallel()
	shared := ""
	for _, file := range luaIn(t, "lib/*.lua") {
		text, err := assemble(luaFiles, file, "")
		require.NoError(t, err)
		shared += text
	}
	r := newRig(t)
	tr := newTracer(t, r.Client)
	r.listen(rwChannel, sessionChannel, plainChannel+":j:1")
	r.Conn = transport.NewConn(tr, 0, 0, new(sync.WaitGroup))
	run := func(c scriptCase) {
		r.must("FLUSHALL")
		t.Log(c.name)
		c.before(r)
		clear(tr.ran)
		c.call(r)
		c.call(r)
	}
	twice := map[string]bool{}
	for _, c := range scriptCases() {
		run(c)
		maps.Copy(twice, tr.ran)
	}
	for _, c := range append(rareCases(tr), redissonCases()...) {
		run(c)
	}
	for name, s := range scripts.sets[Plainly] {
		says := strings.HasPrefix(s.Text, undeclared)
		for n, line := range tr.sites[name] {
			if !tr.seen[line] || !strings.Contains(shared, line) {
				t.Errorf("%s: no case reaches its place %d: %s", name, n, line)
			}
		}
		if !twice[name] {
			t.Errorf("no case sends %s twice and compares", name)
		}
		if says != (len(tr.stray[name]) > 0) {
			t.Errorf("%s uses without declaring them %v, and says so: %v", name, tr.stray[name], says)
		}
		t.Log(name, tr.stray[name])
	}
}
