package test

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

// listed is what --json prints of a lock.
type listed struct {
	Name, Mode, Kind string

	Holders []struct {
		ID, Session string
		Count       int
	}
	TTL     int64  `json:"ttl_ms"`
	Held    *int64 `json:"held_ms"`
	Waiters int
	Token   int64
}

func parsed(t testing.TB, text string) (all []listed) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &all))
	return all
}

func TestListShowsLocksAndNothingElse(t *testing.T) {
	s := server(t)
	began := time.Now()
	locker, other := kit.NewSession(t, s), kit.NewSession(t, s)
	defer hold(t, locker.Mutex("goods:1"))()
	defer hold(t, locker.Mutex("strange\n\x1b[31mname"))()
	defer hold(t, locker.FairMutex("goods:2"))()
	defer hold(t, locker.RWMutex("goods:3"))()
	defer hold(t, locker.RWMutex("goods:4").RLocker())()
	defer hold(t, other.RWMutex("goods:4").RLocker())()
	defer hold(t, other.Mutex("other"))()
	// and other data, which is no lock
	admin(t, s, "EVAL", "for i = 1, 5000 do redis.call('HSET', 'application:big', i, 'x') end", "0")
	admin(t, s, "HSET", "application:user", "mode", "dark", "name", "x")
	admin(t, s, "SET", "goods:text", "x")
	admin(t, s, "ZADD", "goods:zset", "1", locker.ID()+":1")
	waiter := run(t, s, "run", "--fair", "goods:2", "--", "true")
	redistest.Eventually(t, soon, "a waiter", func() bool { return admin(t, s, "ZCARD", "relock_queue:{goods:2}") == int64(1) })

	all := parsed(t, run(t, s, "list", "--json", "goods:*").ends(0))
	var got []string
	for _, l := range all {
		got = append(got, fmt.Sprintf("%s %s %s %d %d", l.Name, l.Mode, l.Kind, len(l.Holders), l.Waiters))
		require.InDelta(t, 15_000, l.TTL, 15_000, "time to live of %s in ms", l.Name)
		if l.Mode == "exclusive" {
			require.LessOrEqual(t, *l.Held, time.Since(began).Milliseconds()+1000, "%s is held for so many ms", l.Name)
		}
	}
	require.Equal(t, []string{
		"goods:1 exclusive exclusive 1 0", "goods:2 exclusive exclusive 1 1", "goods:3 exclusive exclusive 1 0", "goods:4 shared shared 2 0",
	}, got)
	h := all[0].Holders[0]
	require.Equal(t, locker.ID(), h.Session)
	require.True(t, strings.HasPrefix(h.ID, locker.ID()+":"), h.ID)
	require.Equal(t, 1, h.Count)

	text := run(t, s, "list").ends(0)
	for _, want := range []string{"goods:4 ", "and 1 more", `"strange\n\x1b[31mname"`, "\nother  ", "NAME"} {
		require.Contains(t, text, want)
	}
	require.Equal(t, 7, strings.Count(text, "\n"), text)
	waiter.signal(syscall.SIGTERM)
	waiter.ends(143)
}

// What others have stored may look like a lock. It costs no more than it must, and is shown as a lock only if it can be
// one.
func TestListIsQuickWithWhatOthersHaveStored(t *testing.T) {
	s := server(t)
	const fill = `for i = 1, 100000 do redis.call('HSET', KEYS[1], string.format('%08x-0000-8000-8000-000000000000:1', i), ARGV[1]) end`
	admin(t, s, "EVAL", fill, "1", "many", "1")
	admin(t, s, "EVAL", fill, "1", "sessions", `{"user": 7}`)
	for i, permits := range []string{"-1e300", "-inf", "-0.5", "0", "1"} {
		admin(t, s, "ZADD", fmt.Sprint("ranking", i), permits, "permits", "5", "somebody")
	}
	all := parsed(t, run(t, s, "list", "--json").ends(0))
	require.Len(t, all, 1)
	require.Equal(t, "many", all[0].Name)
	require.Len(t, all[0].Holders, 100_000)
}

// A lock that a session keeps though nobody uses it is shown as its own, and can be opened. A command that waits for it
// gets it at once.
func TestKeptLocksAreShownAndOpened(t *testing.T) {
	s := server(t)
	keeper := kit.NewSession(t, s)
	l := keeper.Mutex("tenant", relock.WithKeep(time.Hour))
	last := int64(0)
	pair := func() {
		kit.Lock(t, t.Context(), l)
		require.Greater(t, l.FencingToken(), last)
		last = l.FencingToken()
		require.NoError(t, l.Unlock(t.Context()))
	}
	pair()
	all := parsed(t, run(t, s, "list", "--json").ends(0))
	require.Len(t, all, 1)
	require.Equal(t, []any{"tenant", "exclusive", keeper.ID(), last}, []any{all[0].Name, all[0].Mode, all[0].Holders[0].Session, all[0].Token})
	text := run(t, s, "inspect", "tenant").ends(0)
	require.Contains(t, text, "tenant: held")
	run(t, s, "unlock", "--yes", "tenant").ends(0)
	locked(t, s, "tenant", false)
	pair() // whoever opened it may have wanted it, so this one is not kept
	pair()
	locked(t, s, "tenant", true)
	run(t, s, "run", "-n", "tenant", "--", "true").ends(1)
	run(t, s, "run", "tenant", "--", "true").ends(0)
	locked(t, s, "tenant", false)
	pair()
	for _, name := range []string{"list", "inspect", "top"} {
		text = start(t, command("", name, "--help")).ends(0)
		require.Contains(t, text, "may be kept idle by its process (WithKeep)", name)
	}
}

// A terminal of 80 columns shows the whole of names and holders, and breaks no line.
func TestListAndInspectFit80Columns(t *testing.T) {
	s := server(t)
	const name, label = "warehouse:eu-central-1:goods:1000:1234567890", "shop@shop-6d5f9c7b8-x2x7p.example.org:4711"
	locker := kit.NewSession(t, s, relock.WithLabel(label))
	defer hold(t, locker.Mutex(name))()
	defer hold(t, locker.Mutex("short"))()
	defer hold(t, locker.RWMutex("shared").RLocker())()
	for _, args := range [][]string{{"list"}, {"inspect", name, "short", "shared", "free"}} {
		x := atWidth(t, command(s.Addr(), args...), 80)
		x.ends(0)
		redistest.Eventually(t, soon, "all of it", func() bool {
			text := x.text()
			return strings.Contains(text, name) && strings.Count(text, "by "+label) == 3
		})
		for l := range strings.Lines(x.text()) {
			require.LessOrEqual(t, len(strings.TrimRight(l, "\n")), 80, l)
		}
	}
	defer hold(t, kit.NewSession(t, s, relock.WithLabel("a:1")).Mutex("x"))()
	x := atWidth(t, command(s.Addr(), "list", "x"), 80)
	x.ends(0)
	x.shows("NAME  KIND") // what fits is a table
}

// asked starts unlock of a held lock, goods, which asks.
func asked(t testing.TB, s *redistest.Server) *terminal {
	t.Helper()
	x := at(t, command(s.Addr(), "unlock", "goods"))
	x.shows("goods: ", "Open it? [y/N]")
	return x
}

func TestUnlockAsksFirst(t *testing.T) {
	s := server(t)
	m := kit.NewSession(t, s).Mutex("goods")
	defer hold(t, kit.NewSession(t, s).Mutex("other"))()
	_ = hold(t, m)
	for answer, status := range map[string]int{"n\n": 1, "\n": 1, "yesterday\n": 1, ctrlC: 130} {
		x := asked(t, s)
		x.types(answer)
		x.ends(status)
		if status == 1 {
			x.shows("left as it is")
		}
		require.NoError(t, m.Err(), "after %q", answer)
	}
	x := asked(t, s)
	x.quits("y\n", 0)
	x.shows("goods: opened")
	require.Contains(t, x.text(), "goods: held")
	<-m.Done()
	locked(t, s, "goods", false)
	locked(t, s, "other", true)
	_ = m.Unlock(t.Context())

	_ = hold(t, m)
	require.JSONEq(t, `{"name": "goods", "unlocked": true}`, run(t, s, "unlock", "--yes", "--json", "goods").ends(0))
	<-m.Done()
	_ = m.Unlock(t.Context())
}

// The answer is for the holder that the question showed, however late it comes.
func TestUnlockOpensOnlyWhatTheQuestionShowed(t *testing.T) {
	s := server(t)
	shown, other := kit.NewSession(t, s), kit.NewSession(t, s)
	for _, kind := range []func(s *relock.Session) relock.Locker{
		func(s *relock.Session) relock.Locker { return s.Mutex("goods") },
		func(s *relock.Session) relock.Locker { return s.RWMutex("goods") },
		func(s *relock.Session) relock.Locker { return s.RWMutex("goods").RLocker() },
	} {
		for _, by := range []*relock.Session{shown, other} { // the same process may hold it again
			release := hold(t, kind(shown))
			x := asked(t, s)
			release()
			next := kind(by)
			release = hold(t, next)
			x.quits("y\n", 1)
			x.shows("goods has changed hands and was left as it is")
			require.NoError(t, next.Err(), "%T", next)
			release()
		}
	}
	release := hold(t, shown.Mutex("goods"))
	x := asked(t, s)
	release()
	x.quits("y\n", 1)
	x.shows("goods is not locked")
}

// Without a token nobody knows since when a lock is held.
func TestInspectSaysOnlyWhatIsKnown(t *testing.T) {
	s := server(t)
	defer hold(t, kit.NewSession(t, s).Mutex("goods"))()
	admin(t, s, "DEL", "relock_fence:{goods}")
	text := run(t, s, "inspect", "goods", "free").ends(0)
	require.Contains(t, text, "goods: held (exclusive)\n")
	require.Contains(t, text, "free: not locked")
	all := parsed(t, run(t, s, "inspect", "--json", "goods", "free").ends(0))
	require.Len(t, all, 2)
	require.Nil(t, all[0].Held)
	require.Equal(t, "unlocked", all[1].Mode)
	require.NotNil(t, all[1].Holders)
}

// relock run --note says why a lock is held, wherever its holder is shown.
func TestRunSaysWhyItHolds(t *testing.T) {
	s := server(t)
	look := sh("--note=order-7", "goods", `"$0" inspect goods; "$0" inspect --json goods; "$0" list; "$0" run -n goods -- true`)
	text := run(t, s, append(look, program)...).ends(1)
	require.Contains(t, text, "  note: order-7\n")
	require.Contains(t, text, `"note": "order-7"`)
	require.Regexp(t, `goods .* relock@.*: order-7 `, text)
	for _, flags := range [][]string{{"--slots=2"}, {"-s"}} {
		run(t, s, append([]string{"run", "--note", "x"}, append(flags, "goods", "--", "true")...)...).ends(64)
	}
	run(t, s, "run", "--note", "two\nlines", "goods", "--", "true").ends(64)
}
