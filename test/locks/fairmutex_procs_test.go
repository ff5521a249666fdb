package locks_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func init() { kit.Roles["fair"] = fairRole }

// fairRole is a process with waiters of one FairMutex, which does as it is told:
//
//	lock <n>     locks as waiter n, records that, and unlocks; "done <n>"
//	hold <n>     the same, but unlocks only when told; "got <n> <time> <token>"
//	unlock <n>   "done <n> <time before> <error>"
//	cancel <n>   "left <n> <error>"
//
// A hold that is lost says "lost <n> <time>".
func fairRole(args []string) { // address, lease
	lease, err := time.ParseDuration(args[1])
	kit.ChildCheck(err)
	s, client := kit.ChildSession(args[0], relock.WithLease(lease))
	cancels, unlocks := make(map[string]context.CancelFunc), make(map[string]chan struct{})
	fmt.Println("ready", s.ID())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		verb, n, _ := strings.Cut(in.Text(), " ")
		switch verb {
		case "cancel":
			cancels[n]()
		case "unlock":
			close(unlocks[n])
		default:
			ctx, cancel := context.WithCancel(kit.Background)
			cancels[n], unlocks[n] = cancel, make(chan struct{})
			if verb == "lock" {
				close(unlocks[n])
			}
			go fairWaiter(ctx, s.FairMutex("lock"), client, n, unlocks[n])
		}
	}
}

func fairWaiter(ctx context.Context, m *relock.FairMutex, client rueidis.Client, n string, unlock <-chan struct{}) {
	if err := m.Lock(ctx); err != nil {
		fmt.Println("left", n, err)
		return
	}
	got, token := stamp(), m.FencingToken()
	kit.ChildCheck(recordTurn(client, n, token))
	fmt.Println("got", n, got, token)
	select {
	case <-unlock:
	case <-m.Done():
		fmt.Println("lost", n, stamp())
		<-unlock
	}
	end := stamp()
	fmt.Println("done", n, end, m.Unlock(kit.Background))
}

// stamp returns the time on a clock that all processes share.
func stamp() int64 { return time.Now().UnixNano() }

// recordTurn writes down the turn of waiter n, in steps that only the holder of the
// lock can take without being disturbed.
func recordTurn(client rueidis.Client, n string, token int64) error {
	last, err := client.Do(kit.Background, client.B().Get().Key("token").Build()).AsInt64()
	if err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	if token <= last {
		return fmt.Errorf("token %d after %d", token, last)
	}
	if err := kit.Bump(kit.Background, client, "count"); err != nil {
		return err
	}
	if err := client.Do(kit.Background, client.B().Rpush().Key("turns").Element(n).Build()).Error(); err != nil {
		return err
	}
	return client.Do(kit.Background, client.B().Set().Key("token").Value(strconv.FormatInt(token, 10)).Build()).Error()
}

// line is a queue of waiters for one FairMutex, in helper processes, behind a holder in
// this one.
type line struct {
	t      testing.TB
	server *redistest.Server
	client rueidis.Client
	s      *relock.Session
	first  *relock.FairMutex
	lease  time.Duration
	all    []*redistest.Proc
	of     map[int]*redistest.Proc               // by waiter
	heard  map[*redistest.Proc]map[string]string // lines that were read before they were asked for
}

func newLine(t testing.TB, processes int, lease time.Duration, args ...string) *line {
	t.Helper()
	server := redistest.Start(t, args...)
	q := &line{t: t, server: server, client: kit.NewClient(t, server), lease: lease}
	q.s = kit.NewSession(t, server, relock.WithLease(lease))
	q.first = q.s.FairMutex("lock")
	for range processes {
		q.all = append(q.all, q.process())
	}
	q.clear()
	return q
}

func (q *line) process() *redistest.Proc {
	q.t.Helper()
	p := redistest.Child(q.t, "fair", q.server.Addr(), q.lease.String())
	_, err := p.Expect("ready", kit.Soon)
	require.NoError(q.t, err)
	return p
}

// clear forgets the turns and the waiters of a round.
func (q *line) clear() {
	q.t.Helper()
	require.NoError(q.t, q.client.Do(kit.Background, q.client.B().Del().Key("turns", "count").Build()).Error())
	q.of, q.heard = make(map[int]*redistest.Proc), make(map[*redistest.Proc]map[string]string)
}

// join queues waiter n in a process, and returns when it is in the queue.
func (q *line) join(p *redistest.Proc, n int, verb ...string) {
	q.t.Helper()
	before := q.waiters()
	q.of[n] = p
	q.tell(n, append(verb, "lock")[0])
	q.until(before + 1)
}

func (q *line) waiters() int {
	q.t.Helper()
	n, err := q.client.Do(kit.Background, q.client.B().Zcard().Key("relock_queue:{lock}").Build()).AsInt64()
	require.NoError(q.t, err)
	return int(n)
}

// until waits until n waiters are in the queue. It is called often and must be quick.
func (q *line) until(n int) {
	q.t.Helper()
	for end := time.Now().Add(kit.Soon); q.waiters() != n; {
		if time.Now().After(end) {
			q.t.Fatalf("%d waiters, not %d, within %v", q.waiters(), n, kit.Soon)
		}
		time.Sleep(50 * time.Microsecond)
	}
}

// turns waits for as many turns, and returns whose they were.
func (q *line) turns(n int) []int {
	q.t.Helper()
	redistest.Eventually(q.t, kit.Soon+time.Duration(n)*50*time.Millisecond, fmt.Sprintf("%d turns", n), func() bool {
		have, err := q.client.Do(kit.Background, q.client.B().Llen().Key("turns").Build()).AsInt64()
		return err == nil && have >= int64(n)
	})
	who, err := q.client.Do(kit.Background, q.client.B().Lrange().Key("turns").Start(0).Stop(-1).Build()).AsIntSlice()
	require.NoError(q.t, err)
	ints := make([]int, len(who))
	for i, w := range who {
		ints[i] = int(w)
	}
	return ints
}

// done waits until these waiters have unlocked, and nothing is left.
func (q *line) done(who ...int) {
	q.t.Helper()
	for _, n := range who {
		require.Equal(q.t, "<nil>", strings.Join(q.said(n, "done")[1:], " "))
	}
	nothingOf(q.t, q.client, "lock")
	require.Equal(q.t, len(q.turns(1)), kit.Counted(q.t, q.client, "count"), "two had the lock at a time")
}

// said waits until a process says this about waiter n, and returns the rest of the line.
func (q *line) said(n int, verb string) []string {
	q.t.Helper()
	p, key := q.of[n], verb+" "+strconv.Itoa(n)
	for end := time.Now().Add(kit.Soon); ; {
		if rest, ok := q.heard[p][key]; ok {
			delete(q.heard[p], key)
			return strings.Fields(rest)
		}
		text, err := p.Line(time.Until(end))
		require.NoError(q.t, err, "waiting for %q", key)
		words := strings.SplitN(text, " ", 3)
		require.Len(q.t, words, 3, text)
		if q.heard[p] == nil {
			q.heard[p] = make(map[string]string)
		}
		q.heard[p][words[0]+" "+words[1]] = words[2]
	}
}

// saidAt is said for a line with a time in it.
func (q *line) saidAt(n int, verb string) int64 {
	q.t.Helper()
	at, err := strconv.ParseInt(q.said(n, verb)[0], 10, 64)
	require.NoError(q.t, err)
	return at
}

// tell tells the process of waiter n something about it.
func (q *line) tell(n int, verb string) {
	q.t.Helper()
	require.NoError(q.t, q.of[n].Send(verb+" "+strconv.Itoa(n)))
}
