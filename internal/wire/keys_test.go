package wire

import (
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/transport"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// site is a place of a script that runs a command.
var site = regexp.MustCompile(`\b(?:redis\.)?(p?call)\(`)

// marked returns the scripts with an ECHO of its number before each command, and what stands at these places.
func marked() (*Scripts, map[string][]string) {
	s, sites := &Scripts{byName: map[string]*transport.Script{}}, map[string][]string{}
	for _, script := range scripts.All() {
		n := -1
		text := site.ReplaceAllStringFunc(script.Text, func(call string) string {
			n++
			return fmt.Sprintf("traced(%d, '%s', ", n, site.FindStringSubmatch(call)[1])
		})
		for _, at := range site.FindAllStringIndex(script.Text, -1) {
			line, _, _ := strings.Cut(script.Text[at[0]:], "\n")
			sites[script.Name] = append(sites[script.Name], line)
		}
		s.byName[script.Name] = &transport.Script{Name: script.Name, Text: `local function traced(site, how, ...)
  redis.call('echo', '#' .. site)
  return redis[how](...)
end
` + text}
	}
	return s, sites
}

// Servers other than Redis refuse scripts that use keys which they have not declared, or run them alone. Scripts of
// Mutexes, FairMutexes and semaphores use none; those of RWMutexes the keys of readers that are let in together, and
// their first line says so. Every place of every script is reached: those of the files that scripts share in one of them.
func TestScriptsUseNoKeysThatTheyHaveNotDeclared(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	all, sites := marked()
	r.Protocol = NewProtocol(transport.NewConn(r.Client, 0, 0, new(sync.WaitGroup)), all, GrantMost)
	r.present("s", "h")
	m := r.monitor()
	reached, seen := map[string]map[int]bool{}, map[string]bool{}
	undeclaredBy := map[string]map[string]bool{}
	judge := func(t *testing.T, runs []run) {
		for _, run := range runs {
			name := r.scriptOf(run.call)
			if name == "" {
				continue // of the test
			}
			if reached[name] == nil {
				reached[name], undeclaredBy[name] = map[int]bool{}, map[string]bool{}
			}
			n, _ := strconv.Atoi(run.call[2])
			declared := run.call[3 : 3+n]
			for _, words := range run.commands {
				if at, ok := strings.CutPrefix(words[len(words)-1], "#"); ok && words[0] == "echo" {
					n, _ := strconv.Atoi(at)
					reached[name][n], seen[sites[name][n]] = true, true
					continue
				}
				for _, key := range r.keysOf(words) {
					if !slices.Contains(declared, key) {
						undeclaredBy[name][key] = true
						if !strings.Contains(key, ":rwlock_timeout:") || !strings.Contains(name, "read") && !strings.Contains(name, "write") {
							t.Errorf("%s uses %s in %q", name, key, words)
						}
					}
				}
			}
		}
	}
	cases := func(how PubSub, cases []scriptCase) {
		r.PubSub = how
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				r.must("FLUSHALL")
				r := r.on(t)
				judge(t, m.during(func() {
					c.before(r)
					c.call(r)
					c.call(r)
				}))
			})
		}
	}
	cases(Plainly, scriptCases())
	r.listen(plainChannel, rwChannel)
	cases(Plainly, redissonCases())
	cases(ClusterWide, clusterCases())
	if redistest.Has(t, redistest.ShardedPubSub) {
		cases(Sharded, clusterCases())
	}
	shared := sharedText(t)
	for _, s := range scripts.All() {
		for n, line := range sites[s.Name] {
			if !reached[s.Name][n] && !(seen[line] && strings.Contains(shared, line)) {
				t.Errorf("%s: no case reaches its place %d: %s", s.Name, n, line)
			}
		}
		assert.Equal(t, len(undeclaredBy[s.Name]) > 0, strings.HasPrefix(s.Text, undeclared), "%s uses %v", s.Name,
			slices.Sorted(maps.Keys(undeclaredBy[s.Name])))
	}
}

// sharedText returns the files that scripts share, as they are sent.
func sharedText(t *testing.T) (text string) {
	t.Helper()
	for _, file := range sharedFiles(t) {
		part, err := assemble(luaFiles, file)
		require.NoError(t, err)
		text += part
	}
	return text
}

// sharedFiles returns the Lua files that are not scripts of their own.
func sharedFiles(t *testing.T) (files []string) {
	t.Helper()
	all, err := fs.Glob(luaFiles, "*.lua")
	require.NoError(t, err)
	for _, file := range all {
		if !slices.Contains(scriptNames[:], strings.TrimSuffix(file, ".lua")) {
			files = append(files, file)
		}
	}
	return files
}

// scriptOf returns the script that a command runs, if it is one of the protocol.
func (r *rig) scriptOf(words []string) string {
	for _, s := range r.Scripts() {
		if sha := s.Sha.Load(); words[1] == s.Text || sha != nil && words[1] == *sha {
			return s.Name
		}
	}
	return ""
}

// keysOf returns the keys that a command uses. A channel is not one.
func (r *rig) keysOf(words []string) []string {
	switch words[0] {
	case "echo", "time", "publish", "spublish", "pubsub":
		return nil
	}
	return r.texts(append([]string{"COMMAND", "GETKEYS"}, words...)...)
}
