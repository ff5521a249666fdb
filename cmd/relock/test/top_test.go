package test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

// The way of a new user through README.md: a job under a lock is seen in top from a second
// terminal, forced there, and ends.
func TestJobIsForcedInTop(t *testing.T) {
	s := server(t)
	job := at(t, command(s.Addr(), sh("", "nightly-report", "echo working; sleep 1000")...))
	job.shows("working")
	x := topAt(t, s)
	x.displays(`^nightly-report +exclusive +relock@\S+:\d+ +[0-9.]+m?s +\d+s +0$`)
	x.presses("u", `^open nightly-report, which relock@\S+:\d+ has held for .*\[y/N\]`)
	x.presses("n", "nightly-report: left as it is")
	locked(t, s, "nightly-report", true)
	x.presses("u", `\[y/N\]`)
	x.presses("y", "nightly-report: opened")
	job.ends(143)
	job.shows("the lock is lost")
	x.displays(`^nightly-report +- +- +- +0$`)
	x.displays("no lock is held")
	x.quits("q", 0)
}

// The table may change while the question stands: the answer is for the holder that it showed.
func TestTopOpensOnlyWhatTheQuestionShowed(t *testing.T) {
	s := server(t)
	shown, other := kit.NewSession(t, s), kit.NewSession(t, s)
	release := hold(t, shown.Mutex("goods"))
	x := topAt(t, s)
	x.displays(`^goods +exclusive`)
	x.presses("u", `^open goods, .*\[y/N\]`)
	release()
	next := other.FairMutex("goods")
	release = hold(t, next)
	x.presses("y", "goods: has changed hands and was left as it is")
	require.NoError(t, next.Err())
	x.presses("u", `\[y/N\]`)
	release()
	x.presses("y", "goods: was not locked any more")
	x.quits("q", 0)
}

func TestTopSortsFiltersAndInspects(t *testing.T) {
	s := server(t)
	locker, other := kit.NewSession(t, s), kit.NewSession(t, s)
	defer hold(t, locker.Mutex("amber"))()
	defer hold(t, locker.RWMutex("blue").RLocker())()
	defer hold(t, other.RWMutex("blue").RLocker())()
	releaseFair := hold(t, locker.FairMutex("crowded"))
	queued := run(t, s, "run", "--fair", "crowded", "--", "true")
	x := topAt(t, s)
	order := func(keys string, names ...string) { x.presses(keys, "^"+strings.Join(names, `.*\n`)) }
	x.displays(`3 held, 1 waiting, by heat`)
	x.displays(`^crowded +exclusive .* 1$`)
	x.displays(`^blue +shared +2 readers .*>?[0-9.]+m?s .* 0$`)
	x.displays(`WAITERS\ncrowded`)
	order("n", "amber", "blue", "crowded")
	order("r", "crowded", "blue", "amber")
	x.presses("/"+"blu", `filter: blu`)
	x.displays(`WAITERS\nblue.*\n\n`)
	x.presses("\r\r", `^mode +shared`)
	text := x.screen()
	require.Equal(t, 2, strings.Count(text, "holder  "), text)
	require.Contains(t, text, locker.ID())
	require.Contains(t, text, other.ID())
	order(" \x1b", "crowded", "blue", "amber")
	x.presses("?", "Heat is who has most waiters")
	require.Contains(t, x.screen(), "may be kept idle by its process (WithKeep)")
	require.Contains(t, x.screen(), "any key goes back")
	x.presses(" p", "paused")
	releaseFair()
	queued.ends(0)
	x.presses("p", "2 held, 0 waiting")
	x.types(ctrlC)
	x.ends(0)
}

// With thousands of locks the load stays what the last line but one says.
func TestTopKeepsToItsLoad(t *testing.T) {
	t.Parallel()
	const count, steps, reads = 4000, 15, 800
	s := redistest.Start(t)
	admin(t, s, "EVAL", `for i = 0, ARGV[1] - 1 do
		local name = string.format('lock:%04d', i)
		redis.call('HSET', name, string.format('00000000-0000-4000-8000-%012d:1', i), 1)
		redis.call('PEXPIRE', name, 3600000)
		redis.call('SET', 'text:' .. i, 'x')
	end`, "0", fmt.Sprint(count))
	admin(t, s, "CONFIG", "RESETSTAT")
	began := time.Now()
	x := topAt(t, s, "--steps", fmt.Sprint(steps), "--reads", fmt.Sprint(reads))
	x.displays(`load: at most 15 SCANs of 500 keys, 800 reads a second`)
	x.displays(`now \d+, \d+ of 4000 locks`)
	x.displays(`^relock top .* 4000 held`)
	x.presses("nG", `^lock:3999 +exclusive +00000000-0000-4000-8000-000000003999`)
	stats := s.CommandStats()
	seconds := time.Since(began).Seconds() + 1
	require.LessOrEqual(t, stats["scan"], int64(steps*seconds), "SCANs in %v s", seconds)
	require.LessOrEqual(t, stats["pttl"], int64(reads*(seconds+1)), "reads in %v s", seconds)
	require.Len(t, parsed(t, run(t, s, "list", "--json").ends(0)), count)
	x.quits("q", 0)
}

// The terminal is as before when top ends, also by a signal.
func TestTopLeavesTheTerminalAsItWas(t *testing.T) {
	s := server(t)
	x := shell(t, s, "--noediting")
	x.types("stty -a > /dev/null; before=$(stty -g); relock top; [ \"$before\" = \"$(stty -g)\" ] && echo same\"\"mode\n")
	x.displays("no lock is held")
	x.types("q", "samemode")
	y := topAt(t, s)
	y.displays("no lock is held")
	y.signal(syscall.SIGTERM)
	y.ends(0)
	y.says("\x1b[?1049l") // the screen as it was
}
