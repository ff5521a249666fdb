package kit

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

func init() { Roles["faults-client"] = faultsClient }

// faultsClient is a process with one lock, which it uses as its input tells, one
// command a line. It answers each command with a line, and says "lost" on its own.
func faultsClient(args []string) { // address, name, lease, kind
	addr, name := args[0], args[1]
	lease, err := time.ParseDuration(args[2])
	ChildCheck(err)
	s, client := ChildSession(addr, relock.WithLease(lease))
	var m relock.Locker = s.Mutex(name)
	for _, k := range LockKinds {
		if k.Name == args[3] {
			m = k.Of(s)
		}
	}
	token := func() int64 {
		if m, ok := m.(FencedLocker); ok {
			return m.FencingToken()
		}
		return 0
	}
	fmt.Println("ready", s.ID())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "lock":
			ChildCheck(m.Lock(Background))
			fmt.Println("locked", token())
			done := m.Done()
			go func() {
				<-done
				if errors.Is(m.Err(), relock.ErrLost) {
					fmt.Println("lost")
				}
			}()
		case "wait": // does not answer until it has the lock, and ends it at once
			go func() {
				ChildCheck(m.Lock(Background))
				fmt.Println("locked", token())
				ChildCheck(m.Unlock(Background))
			}()
		case "state":
			fmt.Println("state", IsClosed(m.Done()), errors.Is(m.Err(), relock.ErrLost))
		case "unlock":
			err := m.Unlock(Background)
			fmt.Println("unlocked", err == nil, errors.Is(err, relock.ErrLost))
		case "write":
			accepted, err := FencedWrite(Background, client, "resource", token())
			ChildCheck(err)
			fmt.Println("wrote", accepted)
		}
	}
}

// FencedWrite writes to a resource that refuses tokens smaller than one it has seen.
func FencedWrite(ctx context.Context, client rueidis.Client, resource string, token int64) (bool, error) {
	const script = `
local seen = redis.call('get', KEYS[1])
if seen and tonumber(seen) > tonumber(ARGV[1]) then return 0 end
redis.call('set', KEYS[1], ARGV[1])
return 1`
	n, err := client.Do(ctx, client.B().Eval().Script(script).Numkeys(1).
		Key(resource).Arg(strconv.FormatInt(token, 10)).Build()).AsInt64()
	return n == 1, err
}

// FaultsChild starts a faultsClient, whose lock is a Mutex of that name, or the lock of a kind.
func FaultsChild(t testing.TB, at Addressed, name string, lease time.Duration, kind ...string) *redistest.Proc {
	t.Helper()
	p := redistest.Child(t, "faults-client", at.Addr(), name, lease.String(), append(kind, "")[0])
	_, err := p.Expect("ready ", Soon)
	require.NoError(t, err)
	return p
}

// Tell sends a command to a child and returns its answer, after the first word.
func Tell(t testing.TB, p *redistest.Proc, command, answer string) string {
	t.Helper()
	require.NoError(t, p.Send(command))
	rest, err := p.Expect(answer, Soon)
	require.NoError(t, err)
	return strings.TrimSpace(rest)
}

func TellToken(t testing.TB, p *redistest.Proc) int64 {
	t.Helper()
	token, err := strconv.ParseInt(Tell(t, p, "lock", "locked"), 10, 64)
	require.NoError(t, err)
	return token
}
