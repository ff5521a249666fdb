package test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/relock-go/relock"
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
	{7, "run job -- sh -c exit_7", ""},
	{143, "run job -- sh -c kill_-TERM_$$", ""},
	{137, "run job -- sh -c kill_-KILL_$$", ""},
	{126, "run job -- /etc/passwd", "permission denied"},
	{127, "run job -- no-such-command", "no-such-command"},
	{1, "run -n taken -- true", "taken is held by"},
	{75, "run -n -E 75 taken -- true", "taken is held by"},
	{0, "run -n -E 0 taken -- false", "taken is held by"},
	{1, "run -q -n taken -- true", ""},
	{1, "run -w 0 taken -- true", "taken is held by"},
	{1, "run -w 100ms taken -- true", "taken is held by"},
	{76, "run --timeout 0.1 --conflict-exit-code 76 taken -- true", "taken is held by"},
	{1, "run -s -n taken -- true", "taken is held by"},
	{1, "run -x -n taken -- true", "taken is held by"},
	{1, "run --fair -n taken -- true", "taken is held by"},
	{0, "run -n job -- true", ""},
	{64, "run", "needs the name"},
	{64, "run job", `needs "--"`},
	{64, "run -- true", "needs the name"},
	{64, "run job true", `needs "--"`},
	{64, "run job --", "needs a command"},
	{64, "run --nowait job -- true", "unknown flag"},
	{64, "run -w -1s job -- true", "must not be negative"},
	{64, "run -E 256 job -- true", "from 0 to 255"},
	{64, "run --lease 1ms job -- true", "at least 1s"},
	{64, "run --max-hold 0 job -- true", "more than nothing"},
	{64, "run -s --fair job -- true", "were all set"},
	{64, "run -n -w 3 job -- true", "were all set"},
	{64, "run {job -- true", "bad lock name"},
	{65, "run text -- true", "not a lock"},
	{65, "run application -- true", "not a lock"},
	{64, "inspect {a", "bad lock name"},
	{64, "unlock --yes {a", "bad lock name"},
	{69, "run --redis localhost:1 job -- true", "cannot connect"},
	{64, "run --redis http://localhost job -- true", "scheme"},
	{64, "run --redis localhost?masterset=x job -- true", `parameter "masterset"`},
	{0, "list", ""},
	{0, "list no*", ""},
	{69, "list --redis localhost:1", "cannot connect"},
	{64, "list a b", "at most 1"},
	{0, "inspect taken job", ""},
	{65, "inspect application", "not a lock"},
	{64, "inspect", "at least 1"},
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
	t.Parallel()
	s := redistest.Start(t)
	free := session(t, s)
	defer hold(t, free.Mutex("taken"))()
	admin(t, s, "HSET", "application", "user", "7")
	admin(t, s, "SET", "text", "7")
	for _, c := range statuses {
		r := run(t, s, words(c.args)...)
		r.ends(c.status)
		if text := r.err.String(); c.says == "" && text != "" || !strings.Contains(text, c.says) {
			t.Errorf("%s: it says %q, want %q", c.args, text, c.says)
		}
	}
	if admin(t, s, "HGET", "application", "user") != "7" || admin(t, s, "GET", "text") != "7" {
		t.Error("what is no lock was changed")
	}
	locked(t, s, "taken", true)
}

// words splits arguments at blanks; "_" stands for one within.
func words(args string) (all []string) {
	for w := range strings.FieldsSeq(args) {
		if !filepath.IsAbs(w) {
			w = strings.ReplaceAll(w, "_", " ")
		}
		all = append(all, w)
	}
	return all
}

// The command has relock's input, output and errors, and finds its lock in its environment.
func TestCommandHasStreamsAndToken(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var tokens []string
	for range 2 {
		cmd := command(s.Addr(), sh("", "goods", `read line; echo "$line $RELOCK_NAME" >&2; echo "$RELOCK_TOKEN"`)...)
		cmd.Stdin = strings.NewReader("typed\n")
		r := start(t, cmd)
		r.ends(0)
		failIf(t, r.err.String() != "typed goods\n", "error output %q", r.err.String())
		tokens = append(tokens, r.out.String())
	}
	if tokens[0] >= tokens[1] || len(tokens[0]) != len(tokens[1]) || len(tokens[0]) < 10 {
		t.Errorf("tokens %q do not grow", tokens)
	}
	r := run(t, s, sh("-s", "goods", `echo "${RELOCK_TOKEN-none}"`)...)
	r.ends(0)
	failIf(t, r.out.String() != "none\n", "token of a reader: %q", r.out.String())
	locked(t, s, "goods", false)
}

// A store would take an outer lock's token for that of the inner one.
func TestInnerCommandDoesNotGetTheOuterToken(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const tells = `echo "$RELOCK_NAME ${RELOCK_TOKEN-none}"`
	for _, flags := range []string{"-s", "-x"} {
		inner := append([]string{program}, sh(flags, "inner", tells)...)
		r := run(t, s, append([]string{"run", "outer", "--", "sh", "-c", tells + `; exec "$0" "$@"`}, inner...)...)
		r.ends(0)
		words := strings.Fields(r.out.String())
		if len(words) != 4 || words[0] != "outer" || words[2] != "inner" || words[1] == "none" || words[1] == words[3] ||
			(words[3] == "none") != (flags == "-s") {
			t.Errorf("with %s: %q", flags, words)
		}
	}
}

// The locks are those of the library, and of Redisson: one kind excludes the other.
func TestLocksAreSharedWithTheLibrary(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := session(t, s)
	for _, flags := range []string{"", "-x", "-s", "--fair"} {
		name := "job" + flags
		end := waiting(t, s.Addr(), flags, name)
		for _, l := range []relock.Locker{locker.Mutex(name), locker.FairMutex(name), locker.RWMutex(name)} {
			if ok, err := l.TryLock(context.Background()); ok || err != nil {
				t.Errorf("%s, %T: TryLock: %v, %v", flags, l, ok, err)
			}
		}
		end()
		locked(t, s, name, false)
	}
}

func TestSharedLocksExcludeOthersOnly(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	end := waiting(t, s.Addr(), "-s", "goods")
	run(t, s, "run", "-n", "-s", "goods", "--", "true").ends(0)
	run(t, s, "run", "-n", "-x", "goods", "--", "true").ends(1)
	run(t, s, "run", "-n", "goods", "--", "true").ends(1)
	writer := run(t, s, "run", "-v", "-x", "goods", "--", "true")
	writer.warns("waiting")
	redistest.Eventually(t, soon, "readers that stand aside", func() bool {
		r := run(t, s, "run", "-q", "-n", "-s", "goods", "--", "true")
		<-r.ended
		return r.status == 1
	})
	end()
	writer.ends(0)
}

// Who waits with --fair gets the lock in order of arrival.
func TestFairWaitersGoInOrder(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	release := hold(t, session(t, s).FairMutex("goods"))
	dir := t.TempDir()
	var all []*running
	for i, who := range []string{"a", "b", "c", "d"} {
		all = append(all, run(t, s, sh("--fair", "goods", "echo "+who+" >> "+dir+"/order")...))
		redistest.Eventually(t, soon, "a place in the queue", func() bool {
			return admin(t, s, "ZCARD", "relock_queue:{goods}") == int64(i+1)
		})
	}
	release()
	for _, r := range all {
		r.ends(0)
	}
	if order, err := os.ReadFile(dir + "/order"); string(order) != "a\nb\nc\nd\n" {
		t.Errorf("order %q, %v", order, err)
	}
}

// Whether the lock is taken nobody knows then.
func TestServerThatHangsIsNoConflict(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	ok(t, s.Freeze())
	run(t, s, "run", "-w", "1s", "-E", "75", "goods", "--", "true").ends(69)
}
