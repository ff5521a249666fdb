package test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// The way of a new user through README.md: a job under a lock is seen in top from a second
// terminal, forced there, and ends.
func TestJobIsForcedInTop(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	job := at(t, command(s.Addr(), sh("", "nightly-report", "echo working; sleep 1000")...))
	job.shows(0, "working")
	x := topAt(t, s)
	x.displays(`^nightly-report +exclusive +relock@\S+:\d+ +[0-9.]+m?s +\d+s +0$`)
	x.types("u")
	x.displays(`^open nightly-report, which relock@\S+:\d+ has held for .*\[y/N\]`)
	x.types("n")
	x.displays("nightly-report: left as it is")
	locked(t, s, "nightly-report", true)
	x.types("u")
	x.displays(`\[y/N\]`)
	x.types("y")
	x.displays("nightly-report: opened")
	job.ends(143)
	job.shows(0, "the lock is lost")
	x.displays(`^nightly-report +- +- +- +0$`)
	x.displays("no lock is held")
	x.types("q")
	x.ends(0)
}

// The table may change while the question stands: the answer is for the holder that it showed.
func TestTopOpensOnlyWhatTheQuestionShowed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	shown, other := session(t, s), session(t, s)
	release := hold(t, shown.Mutex("goods"))
	x := topAt(t, s)
	x.displays(`^goods +exclusive`)
	x.types("u")
	x.displays(`^open goods, .*\[y/N\]`)
	release()
	next := other.FairMutex("goods")
	release = hold(t, next)
	x.types("y")
	x.displays("goods: has changed hands and was left as it is")
	require.NoError(t, next.Err())
	x.types("u")
	x.displays(`\[y/N\]`)
	release()
	x.types("y")
	x.displays("goods: was not locked any more")
	x.types("q")
	x.ends(0)
}

func TestTopSortsFiltersAndInspects(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker, other := session(t, s), session(t, s)
	defer hold(t, locker.Mutex("amber"))()
	defer hold(t, locker.RWMutex("blue").RLocker())()
	defer hold(t, other.RWMutex("blue").RLocker())()
	releaseFair := hold(t, locker.FairMutex("crowded"))
	queued := run(t, s, "run", "--fair", "crowded", "--", "true")
	x := topAt(t, s)
	order := func(names ...string) { x.displays("^" + strings.Join(names, `.*\n`)) }
	x.displays(`3 held, 1 waiting, by heat`)
	x.displays(`^crowded +exclusive .* 1$`)
	x.displays(`^blue +shared +2 readers .*>?[0-9.]+m?s .* 0$`)
	x.displays(`WAITERS\ncrowded`)
	x.types("n")
	order("amber", "blue", "crowded")
	x.types("r")
	order("crowded", "blue", "amber")
	x.types("/" + "blu")
	x.displays(`filter: blu`)
	x.displays(`WAITERS\nblue.*\n\n`)
	x.types("\r\r")
	x.displays(`^mode +shared`)
	text := x.screen()
	require.Equal(t, 2, strings.Count(text, "holder  "), text)
	require.Contains(t, text, locker.ID())
	require.Contains(t, text, other.ID())
	x.types(" ")
	x.types("\x1b")
	order("crowded", "blue", "amber")
	x.types("?")
	x.displays("Heat is who has most waiters")
	x.types(" p")
	x.displays("paused")
	releaseFair()
	queued.ends(0)
	x.types("p")
	x.displays("2 held, 0 waiting")
	x.types(ctrlC)
	x.ends(0)
}

// With thousands of locks the load stays what the last line but one says.
func TestTopKeepsToItsLoad(t *testing.T) {
	t.Parallel()
	const count, steps, reads = 4000, 15, 800
	s := redistest.Start(t)
	c := s.Client(t)
	var sets rueidis.Commands
	for i := range count {
		name := fmt.Sprintf("lock:%04d", i)
		sets = append(sets,
			c.B().Hset().Key(name).FieldValue().FieldValue(fmt.Sprintf("00000000-0000-4000-8000-%012d:1", i), "1").Build(),
			c.B().Pexpire().Key(name).Milliseconds(3600_000).Build(),
			c.B().Set().Key(fmt.Sprintf("text:%d", i)).Value("x").Build())
	}
	for _, r := range c.DoMulti(t.Context(), sets...) {
		require.NoError(t, r.Error())
	}
	admin(t, s, "CONFIG", "RESETSTAT")
	began := time.Now()
	x := topAt(t, s, "--steps", fmt.Sprint(steps), "--reads", fmt.Sprint(reads))
	x.displays(`load: at most 15 SCANs of 500 keys, 800 reads a second`)
	x.displays(`now \d+, \d+ of 4000 locks`)
	x.displays(`^relock top .* 4000 held`)
	x.types("nG")
	x.displays(`^lock:3999 +exclusive +00000000-0000-4000-8000-000000003999`)
	stats := s.CommandStats()
	seconds := time.Since(began).Seconds() + 1
	require.LessOrEqual(t, stats["scan"], int64(steps*seconds), "SCANs in %v s", seconds)
	require.LessOrEqual(t, stats["pttl"], int64(reads*(seconds+1)), "reads in %v s", seconds)
	r := run(t, s, "list", "--json")
	r.ends(0)
	require.Len(t, parsed(t, r), count)
	x.types("q")
	x.ends(0)
}

// The terminal is as before when top ends, also by a signal.
func TestTopLeavesTheTerminalAsItWas(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	x := shell(t, s)
	x.types("stty -a > /dev/null; before=$(stty -g); \"$relock\" top; [ \"$before\" = \"$(stty -g)\" ] && echo same\"\"mode\n")
	x.displays("no lock is held")
	x.types("q")
	x.shows(0, "samemode")
	y := topAt(t, s)
	y.displays("no lock is held")
	y.signal(syscall.SIGTERM)
	y.ends(0)
	y.says("\x1b[?1049l") // the screen as it was
}
