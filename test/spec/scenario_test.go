package spec

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// luaDir has the scripts, with a deliberate bug of test/mutants if there is one.
func luaDir(t *testing.T, bug string) fs.FS {
	root := "../../"
	if bug == "" {
		return os.DirFS(root + "lua")
	}
	files := fstest.MapFS{}
	names, err := filepath.Glob(root + "lua/*.lua")
	require.NoError(t, err)
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		files[filepath.Base(name)] = &fstest.MapFile{Data: text}
	}
	text, err := os.ReadFile(bug)
	require.NoError(t, err)
	_, changes, _ := strings.Cut(string(text), "\n--- ")
	for change := range strings.SplitSeq(changes, "\n--- ") {
		file, lines, _ := strings.Cut(change, "\n")
		var was, is strings.Builder
		for line := range strings.Lines(lines) {
			if line[0] != '+' {
				was.WriteString(line[1:])
			}
			if line[0] != '-' {
				is.WriteString(line[1:])
			}
		}
		f := files[strings.TrimPrefix(file, "lua/")]
		require.Equal(t, 1, strings.Count(string(f.Data), was.String()), "%s of %s", file, bug)
		f.Data = []byte(strings.Replace(string(f.Data), was.String(), is.String(), 1))
	}
	return files
}

// A stage is a server on which a test plays what sessions a, b and c may do. c hears nothing.
type stage struct {
	t       *testing.T
	server  *redistest.Server
	scripts map[string]*transport.Script
	lock    string
}

func newStage(t *testing.T, server *redistest.Server, bug string) *stage {
	scripts, err := wire.LoadScripts(luaDir(t, bug))
	require.NoError(t, err)
	s := &stage{t: t, server: server, scripts: map[string]*transport.Script{}}
	for _, script := range scripts.All() {
		script.Text = Traced(script.Name, script.Text)
		s.scripts[script.Name] = script
	}
	return s
}

func hold(session string, n int) string {
	return fmt.Sprintf("%s-0000-8000-8000-000000000000:%d", strings.Repeat(session, 8), n)
}

func (s *stage) do(args ...string) any {
	reply, err := s.server.Do(args...)
	require.NoError(s.t, err)
	return reply
}

// run runs a script with keys that end in the lock's name.
func (s *stage) run(script string, keys []string, args ...string) {
	words := []string{"EVAL", s.scripts[script].Text, fmt.Sprint(len(keys))}
	_, _ = s.server.Do(slices.Concat(words, keys, args)...) // of some the reply is an error
}

func (s *stage) keys() []string {
	return []string{s.lock, "relock_fence:{" + s.lock + "}", "relock_queue:{" + s.lock + "}"}
}

func (s *stage) rwKeys() []string {
	return []string{s.lock, "relock_fence:{" + s.lock + "}", "relock_rwqueue:{" + s.lock + "}", "relock_rdqueue:{" + s.lock + "}"}
}

const subscribed, ms30, ms5000 = "numsub", "30", "5000"

func (s *stage) channel() string { return "redisson_lock__channel:{" + s.lock + "}" }

func (s *stage) acquire(id, lease, score string) {
	s.run("mutex_acquire", s.keys(), id, lease, id, score, id, "", s.channel(), "relock_session:", subscribed)
}

func (s *stage) release(id, rest string) {
	s.run("mutex_release", s.keys(), id, id, rest, s.channel(), "relock_session:", subscribed)
}

func (s *stage) poll(id string) {
	s.run("mutex_poll", s.keys(), subscribed, id, s.channel(), "relock_session:")
}

func (s *stage) renew(id string) { s.run("renew", s.keys()[:2], id, "1", ms5000, "0", "") }

func (s *stage) handoff(from, to string, ticket string) {
	s.run("handoff", s.keys(), from, to, "700", to, "", ticket, s.channel(), "relock_session:", subscribed)
}

func (s *stage) write(id, lease string) {
	s.run("write_acquire", s.rwKeys(), id, lease, id, "", id, "", "redisson_rwlock:{"+s.lock+"}", "relock_session:", subscribed, s.prefix())
}

func (s *stage) prefix() string { return "{" + s.lock + "}:" }

func (s *stage) readKeys(id string) []string {
	return append(s.rwKeys(), s.prefix()+id+":rwlock_timeout:1")
}

func (s *stage) read(id, lease string) {
	s.run("read_acquire", s.readKeys(id), id, lease, id, "1", "", "", "", "redisson_rwlock:{"+s.lock+"}", "relock_session:", subscribed, s.prefix())
}

func (s *stage) unwrite(id string) {
	s.run("write_release", s.rwKeys(), id, id, "0", "redisson_rwlock:{"+s.lock+"}", "relock_session:", subscribed, s.prefix())
}

func (s *stage) unread(id string) {
	s.run("read_release", s.readKeys(id), id, id, "0", "redisson_rwlock:{"+s.lock+"}", "relock_session:", subscribed, s.prefix())
}

func (s *stage) pollRead(id string) {
	s.run("read_poll", s.readKeys(id), subscribed, id, "redisson_rwlock:{"+s.lock+"}", "relock_session:", s.prefix())
}

func (s *stage) permit(id, lease string) { s.permitOf(2, id, lease) }

func (s *stage) permitOf(limit int, id, lease string) {
	s.run("permit_acquire", s.keys(), id, lease, fmt.Sprintf("%s %d 5000", id, limit), "1", "", id, "relock_session:", subscribed)
}

func (s *stage) unpermit(id string) {
	s.run("permit_release", s.keys(), id, id+" 2 5000", "0", "relock_session:", subscribed)
}

// over waits until a lease of 30 ms is over.
func (s *stage) over() { time.Sleep(45 * time.Millisecond) }

// scenes are short runs, in which each deliberate bug in Lua shows.
var scenes = map[string]func(s *stage){
	"the session that is there is granted the lock": func(s *stage) {
		s.acquire(hold("a", 1), ms5000, "")
		s.acquire(hold("c", 1), ms5000, "")
		s.acquire(hold("b", 1), ms5000, "")
		s.release(hold("a", 1), "0")
		s.poll(hold("b", 1))
		s.poll(hold("c", 1))
		s.release(hold("b", 2), "0")
		s.release(hold("b", 1), "0")
	},
	"a release of another's hold": func(s *stage) {
		s.acquire(hold("a", 1), ms5000, "")
		s.acquire(hold("b", 1), ms5000, "")
		s.release(hold("c", 1), "0")
		s.poll(hold("b", 1))
	},
	"an arrival beside a score ahead of the clock": func(s *stage) {
		s.acquire(hold("a", 1), ms5000, "")
		s.acquire(hold("b", 1), ms5000, fmt.Sprint(time.Now().Add(time.Second).UnixMicro()))
		s.acquire(hold("b", 2), ms5000, "")
	},
	"a lease runs out, of whose session others wait": func(s *stage) {
		s.acquire(hold("a", 1), ms30, "")
		s.acquire(hold("a", 2), ms5000, "")
		s.acquire(hold("a", 3), ms5000, "")
		s.acquire(hold("b", 1), ms5000, "")
		s.over()
		s.poll(hold("b", 1))
		s.poll(hold("a", 2))
		s.renew(hold("b", 1))
	},
	"a lock that rests": func(s *stage) {
		s.acquire(hold("a", 1), ms5000, "")
		s.release(hold("a", 1), "400")
		s.renew(hold("a", 1))
		s.acquire(hold("b", 1), ms5000, "")
		s.release(hold("a", 1), "0")
	},
	"a ticket": func(s *stage) {
		s.acquire(hold("a", 1), ms5000, "")
		s.handoff(hold("a", 1), hold("d", 1), "1")
		s.acquire(hold("b", 1), ms5000, "")
		s.handoff(hold("d", 1), hold("b", 2), "0")
		s.handoff(hold("d", 1), hold("b", 3), "0")
		s.poll(hold("b", 1))
	},
	"a token ahead of the clock": func(s *stage) {
		s.acquire(hold("a", 1), ms5000, "")
		s.run("raise", s.keys()[:2], hold("a", 1), fmt.Sprint(time.Now().Add(time.Minute).UnixMilli()*1024), ms5000)
		s.release(hold("a", 1), "0")
		s.acquire(hold("b", 1), ms5000, "")
		s.run("raise", s.keys()[:2], hold("b", 1), fmt.Sprint(time.Now().UnixMilli()*1024), ms5000)
		s.release(hold("b", 1), "0")
		s.acquire(hold("b", 2), ms5000, "")
		ahead := time.Now().Add(2*time.Minute).UnixMilli() * 1024
		s.run("raise", s.keys()[:2], hold("b", 2), fmt.Sprint(ahead+5), ms5000)
		s.run("raise", s.keys()[:2], hold("b", 2), fmt.Sprint(ahead), ms5000)
		s.release(hold("b", 2), "0")
		s.acquire(hold("b", 3), ms5000, "")
	},
	"a client of Redisson listens": func(s *stage) {
		s.acquire(hold("a", 1), ms5000, "")
		s.acquire(hold("b", 1), ms5000, "")
		s.release(hold("a", 1), "0")
		s.acquire(hold("c", 1), ms5000, "")
		s.acquire(hold("a", 2), ms5000, "")
		s.release(hold("b", 1), "0")
		s.poll(hold("a", 2))
		time.Sleep(120 * time.Millisecond)
		s.poll(hold("a", 2))
		s.release(hold("a", 2), "0")
	},
	"readers queue behind a writer": func(s *stage) {
		s.read(hold("a", 1), ms5000)
		s.write(hold("b", 1)+":write", ms5000)
		s.read(hold("a", 2), ms5000)
		s.unread(hold("a", 1))
		s.write(hold("a", 3)+":write", ms5000)
		s.unwrite(hold("b", 1) + ":write")
		s.unread(hold("a", 2))
	},
	"a lease of readers runs out": func(s *stage) {
		s.write(hold("b", 1)+":write", ms5000)
		s.unwrite(hold("b", 1) + ":write")
		s.read(hold("b", 2), ms30)
		s.write(hold("a", 1)+":write", ms5000)
		s.read(hold("a", 2), ms5000)
		s.over()
		s.pollRead(hold("a", 2))
	},
	"readers that are gone": func(s *stage) {
		s.read(hold("c", 1), ms30)
		s.write(hold("a", 1)+":write", ms5000)
		s.read(hold("c", 2), ms5000)
		s.run("write_release", s.rwKeys(), hold("a", 1)+":write", hold("a", 1)+":write", "0", "redisson_rwlock:{"+s.lock+"}",
			"relock_session:", subscribed, s.prefix())
		s.over()
		s.run("read_acquire", s.readKeys(hold("b", 1)), hold("b", 1), ms5000, hold("b", 1), "0", "", "", "",
			"redisson_rwlock:{"+s.lock+"}", "relock_session:", subscribed, s.prefix())
	},
	"permits": func(s *stage) {
		s.permit(hold("a", 1), ms5000)
		s.permit(hold("b", 1), ms5000)
		s.permit(hold("a", 2), ms5000)
		s.permit(hold("b", 2), ms5000)
		s.unpermit(hold("a", 1))
		s.unpermit(hold("b", 1))
		s.unpermit(hold("a", 2))
	},
	"a writer's renewal with a shorter lease": func(s *stage) {
		s.write(hold("a", 1)+":write", "60000")
		s.run("renew", s.rwKeys()[:2], hold("a", 1)+":write", "1", ms5000, "0", "")
		s.read(hold("b", 1), ms5000)
		s.unwrite(hold("a", 1) + ":write")
	},
	"a waiter with a smaller limit": func(s *stage) {
		s.permit(hold("a", 1), ms5000)
		s.permit(hold("b", 1), ms5000)
		s.permitOf(1, hold("b", 2), ms5000)
		s.unpermit(hold("b", 1))
		s.unpermit(hold("a", 1))
	},
}

// play plays all scenes, and returns their trace.
func (s *stage) play(t *testing.T) []Event {
	client := s.server.Client(t)
	dedicated, free := client.Dedicate()
	defer free()
	for _, session := range []string{"a", "b"} {
		channel := "relock_session:" + strings.Split(hold(session, 1), ":")[0]
		require.NoError(t, dedicated.Do(t.Context(), client.B().Subscribe().Channel(channel).Build()).Error())
	}
	s.lock = nameOf("a client of Redisson listens")
	require.NoError(t, dedicated.Do(t.Context(), client.B().Subscribe().Channel(s.channel()).Build()).Error())
	s.do("FLUSHALL")
	for name, scene := range scenes {
		s.lock = nameOf(name)
		scene(s)
	}
	all, err := Collect(s.server.Do)
	require.NoError(t, err)
	return all
}

func nameOf(scene string) string { return strings.NewReplacer(" ", "_", ",", "").Replace(scene) }

// beyond are bugs that show only in keys which somebody else has written to, behind 10,000 dead
// readers, after a step of the clock, or 15 s later. The scenes have none of these.
var beyond = []string{
	"force-any-ranking", "grant-timeout-unchecked", "live-entry-dies-with-the-dead",
	"redisson-turn-of-another-clock", "taken-by-nobody",
}

// TestDeliberateBugsInLuaAreRejected plays the scenes with each deliberate bug in a script.
func TestDeliberateBugsInLuaAreRejected(t *testing.T) {
	server := redistest.Start(t)
	var c Checker
	as := newStage(t, server, "").play(t)
	require.NotEmpty(t, as, "scripts do not say what they do")
	require.NoError(t, c.Check(as))
	require.Zero(t, c.Aside)
	fmt.Println(c.Steps, "steps of scenes are accepted")
	all, err := filepath.Glob("../mutants/bugs/*.bug")
	require.NoError(t, err)
	rejected := 0
	for _, bug := range all {
		text, err := os.ReadFile(bug)
		require.NoError(t, err)
		name := strings.TrimSuffix(filepath.Base(bug), ".bug")
		if !strings.Contains(string(text), "\n--- lua/") || slices.Contains(beyond, name) {
			continue
		}
		var c Checker
		err = c.Check(newStage(t, server, bug).play(t))
		if err == nil {
			t.Errorf("%s is not rejected", name)
			continue
		}
		rejected++
		if testing.Verbose() {
			first, _, _ := strings.Cut(err.Error(), "\nThe steps before")
			fmt.Printf("%s:\n    %s\n", name, strings.ReplaceAll(first, "\n", "\n    "))
		}
	}
	fmt.Println(rejected, "deliberate bugs in Lua are rejected")
}
