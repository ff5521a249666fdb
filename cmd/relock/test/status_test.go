package test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

// statuses are command lines, and what comes of them. "taken" is held by another session.
var statuses = []struct {
	status int
	args   string
	says   string // on standard error
}{
	{0, "run job -- true", ""},
	{1, "run job -- false", ""},
	{7, "run job -- sh -c exit${IFS}7", ""},
	{143, "run job -- sh -c kill${IFS}-TERM${IFS}$$", ""},
	{137, "run job -- sh -c kill${IFS}-KILL${IFS}$$", ""},
	{126, "run job -- /etc/passwd", "permission denied"},
	{127, "run job -- no-such-command", "no-such-command"},
	{1, "run -n taken -- true", "taken is held by"},
	{75, "run -n -E 75 taken -- true", "taken is held by"},
	{0, "run -n -E 0 taken -- false", "taken is held by"},
	{1, "run -q -n taken -- true", ""},
	{1, "run -w 0 taken -- true", "taken is held by"},
	{76, "run --timeout 1.5 --conflict-exit-code 76 taken -- true", "taken is held by"},
	{76, "run --wait 1s -E 76 taken -- true", "taken is held by"},
	{64, "run --wait 1s --timeout 1s job -- true", "were all set"},
	{64, "run -n --wait 1s job -- true", "were all set"},
	{1, "run --fair -n taken -- true", "taken is held by"},
	{64, "run", "needs the name"},
	{64, "run job", `needs "--"`},
	{64, "run -- true", "needs the name"},
	{64, "run job true", `needs "--"`},
	{64, "run job --", "needs a command"},
	{0, "run -- -job -- true", ""},
	{3, "run -- --job -- sh -c exit${IFS}3", ""},
	{1, "run -n -- taken -- true", "taken is held by"},
	{64, "run -- -job --", "needs a command"},
	{64, "run -- -job true", "needs the name"},
	{64, "run --nowait job -- true", "unknown flag"},
	{64, "run -w -1s job -- true", "must not be negative"},
	{64, "run -E 256 job -- true", "from 0 to 255"},
	{64, "run --lost-exit-code 0 job -- true", "from 1 to 255"},
	{64, "run --lost-exit-code 256 job -- true", "from 1 to 255"},
	{64, "run --lost-exit-code x job -- true", "invalid argument"},
	{0, "run --lost-exit-code 9 job -- true", ""},
	{7, "run --lost-exit-code 9 job -- sh -c exit${IFS}7", ""},
	{64, "run --lease 1ms job -- true", "at least 1s"},
	{64, "run --max-hold 0 job -- true", "more than nothing"},
	{64, "run -s --fair job -- true", "were all set"},
	{64, "run -n -w 3 job -- true", "were all set"},
	{64, "run {job -- true", "bad lock name"},
	{65, "run text -- true", "not a lock"},
	{65, "run application -- true", "not a lock"},
	{64, "unlock --yes {a", "bad lock name"},
	{69, "run --redis localhost:1 job -- true", "cannot connect"},
	{64, "run --redis http://localhost job -- true", "scheme"},
	{64, "run --redis localhost?masterset=x job -- true", `parameter "masterset"`},
	{0, "list", ""},
	{69, "list --redis localhost:1", "cannot connect"},
	{0, "inspect taken job", ""},
	{65, "inspect application", "not a lock"},
	{1, "unlock --yes job", "not locked"},
	{1, "unlock --yes --json job", ""},
	{65, "unlock --yes application", "not a lock"},
	{64, "unlock taken", "no terminal"},
	{64, "top", "needs a terminal"},
	{0, "doctor", ""},
	{2, "doctor --redis localhost:1", ""},
	{64, "frobnicate", "unknown command"},
	{0, "--help", ""},
	{0, "--version", ""},
}

// The exit status of each subcommand in each case. That of the command is passed on, which
// "consul lock" (#947) and "etcdctl lock" once did not.
func TestExitStatuses(t *testing.T) {
	s := server(t)
	free := kit.NewSession(t, s)
	defer hold(t, free.Mutex("taken"))()
	admin(t, s, "HSET", "application", "user", "7")
	admin(t, s, "SET", "text", "7")
	for _, c := range statuses {
		r := run(t, s, strings.Fields(c.args)...)
		r.ends(c.status)
		require.Contains(t, r.err.String(), c.says, c.args)
		require.Equal(t, c.says == "", r.err.String() == "", "%s: %s", c.args, &r.err)
	}
	require.Equal(t, "7", admin(t, s, "HGET", "application", "user"), "what is no lock was changed")
	require.Equal(t, "7", admin(t, s, "GET", "text"), "what is no lock was changed")
	locked(t, s, "taken", true)
}

// The command has relock's input, output and errors, and finds its lock in its environment.
func TestCommandHasStreamsAndToken(t *testing.T) {
	s := server(t)
	var tokens []string
	for range 2 {
		cmd := command(s.Addr(), sh("", "goods", `read line; echo "$line $RELOCK_NAME" >&2; echo "$RELOCK_TOKEN"`)...)
		cmd.Stdin = strings.NewReader("typed\n")
		r := start(t, cmd)
		tokens = append(tokens, r.ends(0))
		require.Equal(t, "typed goods\n", r.err.String())
	}
	require.Less(t, tokens[0], tokens[1])
	require.Regexp(t, `^\d{10,}\n$`, tokens[0])
	require.Len(t, tokens[1], len(tokens[0]))
	require.Equal(t, "none\n", run(t, s, sh("-s", "goods", `echo "${RELOCK_TOKEN-none}"`)...).ends(0), "token of a reader")
	locked(t, s, "goods", false)
}

// A store would take an outer lock's token for that of the inner one.
func TestInnerCommandDoesNotGetTheOuterToken(t *testing.T) {
	s := server(t)
	const tells = `echo "$RELOCK_NAME ${RELOCK_TOKEN-none}"`
	for flags, want := range map[string]string{"-s": `^outer (\d+)\ninner none\n$`, "-x": `^outer (\d+)\ninner (\d+)\n$`} {
		inner := append([]string{program}, sh(flags, "inner", tells)...)
		text := run(t, s, append(sh("", "outer", tells+`; exec "$0" "$@"`), inner...)...).ends(0)
		require.Regexp(t, want, text)
		require.NotEqual(t, strings.Fields(text)[1], strings.Fields(text)[3], "token of the inner one")
	}
}

// The locks are those of the library, and of Redisson, of the kind that the flags say: one kind excludes the others, and
// only readers share. (A fair one shows itself when somebody waits, as TestListShowsLocksAndNothingElse has it.)
func TestLocksAreSharedWithTheLibrary(t *testing.T) {
	s := server(t)
	locker := kit.NewSession(t, s)
	for flags, kind := range map[string]string{"": "exclusive", "-x": "exclusive", "-s": "shared", "--fair": "exclusive"} {
		name := "job" + flags
		_, end := waiting(t, command(s.Addr(), sh(flags, name, waits)...))
		require.Equal(t, kind, parsed(t, run(t, s, "list", "--json", name).ends(0))[0].Kind)
		for _, l := range []relock.Locker{locker.Mutex(name), locker.FairMutex(name), locker.RWMutex(name)} {
			ok, err := l.TryLock(t.Context())
			require.NoError(t, err)
			require.False(t, ok, "%s, %T", flags, l)
		}
		for other, status := range map[string]int{"-s": 0, "-x": 1} {
			if flags != "-s" {
				status = 1
			}
			run(t, s, "run", "-n", other, name, "--", "true").ends(status)
		}
		end()
		locked(t, s, name, false)
	}
}

// Many jobs of one moment, as of a crontab: each gets its answer, or is told to try again.
func TestCrowdOfJobsIsAnswered(t *testing.T) {
	s := redistest.Start(t) // not in parallel
	crowd := make([]*running, 200)
	for i := range crowd {
		crowd[i] = run(t, s, "run", "-n", "job", "--", "true")
	}
	answered := 0
	for _, r := range crowd {
		<-r.ended
		switch r.status {
		case 0, 1:
			answered++
		case 75:
			require.Contains(t, r.err.String(), "try again")
		default:
			t.Errorf("status %d: %s", r.status, &r.err)
		}
	}
	t.Log(answered, "of", len(crowd), "were answered")
	require.Positive(t, answered)
}

// A server that answers, but so late that no session starts, is busy; one that does not is not there.
func TestServerThatIsTooBusyIsToTryAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	slow := redistest.NewProxy(t, s.Addr())
	slow.Delay(400 * time.Millisecond)
	r := start(t, command(slow.Addr(), "run", "-w", "2s", "job", "--", "true"))
	r.ends(75)
	require.Contains(t, r.err.String(), "busy, try again")
	slow.Delay(0)
	start(t, command(slow.Addr(), "run", "-w", "1m", "job", "--", "true")).ends(0)
	require.NoError(t, s.Freeze())
	start(t, command(slow.Addr(), "run", "-w", "1s", "job", "--", "true")).ends(69)
}
