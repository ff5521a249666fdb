package relock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func init() { roles["faults-client"] = faultsClient }

// faultsClient is a process with one lock, which it uses as its input tells, one
// command a line. It answers each command with a line, and says "lost" on its own.
func faultsClient(args []string) { // address, name, lease, kind
	addr, name := args[0], args[1]
	lease, err := time.ParseDuration(args[2])
	childCheck(err)
	s, client := childSession(addr, relock.WithWatchdog(lease))
	var m fencedLocker = s.Mutex(name)
	if args[3] == "write" {
		m = s.RWMutex(name)
	}
	fmt.Println("ready", s.ID())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "lock":
			childCheck(m.Lock(background))
			fmt.Println("locked", m.FencingToken())
			done := m.Done()
			go func() {
				<-done
				if errors.Is(m.Err(), relock.ErrLost) {
					fmt.Println("lost")
				}
			}()
		case "wait": // does not answer until it has the lock, and ends it at once
			go func() {
				childCheck(m.Lock(background))
				fmt.Println("locked", m.FencingToken())
				childCheck(m.Unlock(background))
			}()
		case "state":
			fmt.Println("state", isClosed(m.Done()), errors.Is(m.Err(), relock.ErrLost))
		case "unlock":
			err := m.Unlock(background)
			fmt.Println("unlocked", err == nil, errors.Is(err, relock.ErrLost))
		case "write":
			accepted, err := fencedWrite(background, client, "resource", m.FencingToken())
			childCheck(err)
			fmt.Println("wrote", accepted)
		}
	}
}

// fencedWrite writes to a resource that refuses tokens smaller than one it has seen.
func fencedWrite(ctx context.Context, client rueidis.Client, resource string, token int64) (bool, error) {
	const script = `
local seen = redis.call('get', KEYS[1])
if seen and tonumber(seen) > tonumber(ARGV[1]) then return 0 end
redis.call('set', KEYS[1], ARGV[1])
return 1`
	n, err := client.Do(ctx, client.B().Eval().Script(script).Numkeys(1).
		Key(resource).Arg(strconv.FormatInt(token, 10)).Build()).AsInt64()
	return n == 1, err
}

// faultsChild starts a faultsClient, whose lock is a Mutex, or the write side of an
// RWMutex if the kind is "write".
func faultsChild(t testing.TB, at addressed, name string, lease time.Duration, kind ...string) *redistest.Proc {
	t.Helper()
	p := redistest.Child(t, "faults-client", at.Addr(), name, lease.String(), append(kind, "plain")[0])
	_, err := p.Expect("ready ", soon)
	require.NoError(t, err)
	return p
}

// tell sends a command to a child and returns its answer, after the first word.
func tell(t testing.TB, p *redistest.Proc, command, answer string) string {
	t.Helper()
	require.NoError(t, p.Send(command))
	rest, err := p.Expect(answer, soon)
	require.NoError(t, err)
	return strings.TrimSpace(rest)
}

func tellToken(t testing.TB, p *redistest.Proc) int64 {
	t.Helper()
	token, err := strconv.ParseInt(tell(t, p, "lock", "locked"), 10, 64)
	require.NoError(t, err)
	return token
}

func TestProcessFrozenPastItsLeaseFindsItselfLost(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	s := redistest.Start(t)
	client := newClient(t, s)
	child := faultsChild(t, s, "it", lease)
	token := tellToken(t, child)
	require.Equal(t, "true", tell(t, child, "write", "wrote"))
	require.NoError(t, child.Freeze())

	m := newSession(t, s, relock.WithWatchdog(lease)).Mutex("it")
	watch := startWatch()
	lock(t, background, m)
	require.Less(t, watch.took(), lease+time.Second)
	require.Greater(t, m.FencingToken(), token)
	held := holderID(t, s, "it")
	ok, err := fencedWrite(background, client, "resource", m.FencingToken())
	require.NoError(t, err)
	require.True(t, ok)

	require.NoError(t, child.Thaw())
	require.Equal(t, "true true", tell(t, child, "state", "state")) // at the first look, watchdog or not
	require.Equal(t, "false", tell(t, child, "write", "wrote"))
	require.Equal(t, "false true", tell(t, child, "unlock", "unlocked"))
	require.Equal(t, held, holderID(t, s, "it"))
	require.NoError(t, m.Err())

	unlock(t, background, m)
}

func TestFrozenProcessIsToldByItselfOnceItGoesOn(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	s := redistest.Start(t)
	child := faultsChild(t, s, "it", lease)
	tellToken(t, child)
	require.NoError(t, child.Freeze())
	freed(t, s, "it", soon)
	require.NoError(t, child.Thaw())
	_, err := child.Expect("lost", soon)
	require.NoError(t, err)
	require.Equal(t, "false true", tell(t, child, "unlock", "unlocked"))
	tellToken(t, child) // things go on
	require.Equal(t, "true false", tell(t, child, "unlock", "unlocked"))
}

func TestKilledHolderFreesTheLockWithinALease(t *testing.T) {
	t.Parallel()
	const lease = 700 * time.Millisecond
	s := redistest.Start(t)
	m := newSession(t, s, relock.WithWatchdog(lease)).Mutex("it")
	best := time.Hour // of a few tries, since the machine may be busy
	for range 3 {
		child := faultsChild(t, s, "it", lease)
		token := tellToken(t, child)
		waiting := async(func() error { return m.Lock(background) })
		time.Sleep(lease / 2)
		require.Equal(t, 0, len(waiting))
		child.Kill()
		killed := startWatch()
		require.NoError(t, receive(t, waiting, "the lock of the killed process"))
		best = min(best, killed.took())
		require.Greater(t, m.FencingToken(), token)
		unlock(t, background, m)
	}
	require.Less(t, best, lease+time.Second)
}

func TestKilledWaiterCostsNobodyAnything(t *testing.T) {
	t.Parallel()
	const lease, waiters = 30 * time.Second, 5
	s := redistest.Start(t)
	m := newSession(t, s, relock.WithWatchdog(lease)).Mutex("it")
	var children []*redistest.Proc
	lock(t, background, m)
	for range waiters {
		child := faultsChild(t, s, "it", lease)
		require.NoError(t, child.Send("wait"))
		children = append(children, child)
		redistest.Eventually(t, soon, "the child to listen", func() bool {
			return subscribers(t, s, "redisson_lock__channel:{it}") == len(children)
		})
	}
	children[0].Kill()
	children[2].Kill()
	require.NoError(t, children[4].Freeze()) // is told, and cannot answer
	unlock(t, background, m)
	start := time.Now()
	for _, i := range []int{1, 3} {
		_, err := children[i].Expect("locked", quickly)
		require.NoError(t, err)
	}
	goesOn(t, m)
	require.Less(t, time.Since(start), quickly)
	require.NoError(t, children[4].Thaw())
	_, err := children[4].Expect("locked", quickly)
	require.NoError(t, err)
}

// subscribers returns how many connections listen to a channel.
func subscribers(t testing.TB, s *redistest.Server, channel string) int {
	t.Helper()
	reply, err := s.Do("PUBSUB", "NUMSUB", channel)
	require.NoError(t, err)
	return int(reply.([]any)[1].(int64))
}
