package locks_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// crowd is what the holders of a lock do: each adds itself to a number in Redis, a reader 1 and a writer
// 10000, and checks who else is there. Writers change a value by reading and then writing it, and compare
// their tokens with the last; readers see to it that the value does not change.
type crowd struct{ client rueidis.Client }

func (c crowd) add(n int64) (int64, error) {
	return c.client.Do(kit.Background, c.client.B().Incrby().Key("crowd").Increment(n).Build()).AsInt64()
}

func (c crowd) number(key string) (int64, error) {
	v, err := c.client.Do(kit.Background, c.client.B().Get().Key(key).Build()).AsInt64()
	if rueidis.IsRedisNil(err) {
		return 0, nil
	}
	return v, err
}

func (c crowd) read() error {
	n, err := c.add(1)
	if err != nil || n < 1 || n >= 10000 {
		return fmt.Errorf("a reader among %d: %w", n, err)
	}
	before, err := c.number("value")
	if err != nil {
		return err
	}
	if after, err := c.number("value"); err != nil || after != before {
		return fmt.Errorf("%d changed to %d under a reader: %w", before, after, err)
	}
	_, err = c.add(-1)
	return err
}

func (c crowd) write(token int64) error {
	if n, err := c.add(10000); err != nil || n != 10000 {
		return fmt.Errorf("a writer among %d: %w", n, err)
	}
	last, err := c.number("token")
	if token <= last {
		err = errors.Join(err, fmt.Errorf("token %d after %d", token, last))
	}
	set := c.client.B().Set().Key("token").Value(strconv.FormatInt(token, 10)).Build()
	err = errors.Join(err, c.client.Do(kit.Background, set).Error(), kit.Bump(kit.Background, c.client, "value"))
	if err != nil {
		return err
	}
	n, err := c.add(-10000)
	if err == nil && n != 0 {
		err = fmt.Errorf("a writer leaves %d", n)
	}
	return err
}

// visit reads or writes once under the lock, by what l is.
func (c crowd) visit(l relock.Locker) error {
	if err := l.Lock(kit.Background); err != nil {
		return err
	}
	var err error
	if fenced, ok := l.(kit.FencedLocker); ok {
		err = c.write(fenced.FencingToken())
	} else {
		err = c.read()
	}
	return errors.Join(err, l.Unlock(kit.Background))
}

// mingle has a goroutine for each handle visit so many times. Of an RWMutex every fourth visit writes.
func (c crowd) mingle(locks []relock.Locker, rounds int) error {
	return kit.Together(len(locks), func(i int) error {
		for n := range rounds {
			l := locks[i]
			if rw, ok := l.(*relock.RWMutex); ok && (i+n)%4 != 0 {
				l = rw.RLocker()
			}
			if err := c.visit(l); err != nil {
				return err
			}
		}
		return nil
	})
}

// written checks how often the crowds have written.
func (c crowd) written(t *testing.T, kind string, locks, rounds, times int) {
	t.Helper()
	n := 0
	for i := range locks * rounds {
		if kind != "writer" || (i/rounds+i%rounds)%4 == 0 {
			n += times
		}
	}
	require.Equal(t, n, kit.Counted(t, c.client, "value"))
}

func init() {
	kit.Roles["mingle"] = func(args []string) { // address, kind, goroutines, rounds
		s, client := kit.ChildSession(args[0])
		goroutines, _ := strconv.Atoi(args[2])
		rounds, _ := strconv.Atoi(args[3])
		var locks []relock.Locker
		for i := range kinds {
			for range goroutines {
				if kinds[i].name == args[1] {
					locks = append(locks, kinds[i].on(s, "lock"))
				}
			}
		}
		var line string
		fmt.Println("ready")
		_, _ = fmt.Fscanln(os.Stdin, &line)
		kit.ChildCheck(crowd{client}.mingle(locks, rounds))
		kit.ChildCheck(s.Close(kit.Background))
		fmt.Println("done")
	}
}

func TestLocksExcludeProcesses(t *testing.T) {
	const processes, goroutines, rounds = 3, 4, 25
	eachOf(t, func(t *testing.T, k *kind) {
		server := redistest.Start(t)
		client := kit.NewClient(t, server)
		kit.AtOnce(t, processes, "mingle", server.Addr(), k.name, strconv.Itoa(goroutines), strconv.Itoa(rounds))
		crowd{client}.written(t, k.name, goroutines, rounds, processes)
		mustBeQuiet(t, client, "lock")
	}, fenced)
}

// Two processes with several goroutines, with and without owners and leases of their own, lose patience at
// random. Nobody's turn may get lost, and in the end nothing is left.
func TestLocksThatAreCancelledAtRandom(t *testing.T) {
	eachOf(t, func(t *testing.T, k *kind) {
		p := newSite(t, k.servers)
		processes := [][]*relock.Session{p.sessions, p.more(t, relock.WithTenure(0))}
		shared := k.of(p.sessions, "lock")
		end := time.Now().Add(kit.Stress(t, 500*time.Millisecond))
		var inside, got, left atomic.Int64
		require.NoError(t, kit.Together(10, func(i int) error {
			ss, parent := processes[i%2], kit.Background
			l := k.of(ss, "lock")
			switch i {
			case 0, 1:
				parent = ss[0].NewContext(parent)
			case 2, 4, 6:
				l = shared
			case 3:
				l = k.of(ss, "lock", relock.WithFixedLease(time.Minute))
			}
			for time.Now().Before(end) || got.Load() == 0 || left.Load() == 0 {
				ctx, cancel := context.WithTimeoutCause(parent, rand.N(20*time.Millisecond), kit.ErrStop)
				err := l.Lock(ctx)
				cancel()
				if err != nil {
					if !errors.Is(err, kit.ErrStop) {
						return err
					}
					left.Add(1)
					continue
				}
				got.Add(1)
				if n := inside.Add(1); n != 1 && !k.reads {
					return fmt.Errorf("%d at the same time", n)
				}
				inside.Add(-1)
				if err := l.Unlock(ctx); err != nil { // ctx has ended
					return err
				}
			}
			return nil
		}))
		t.Logf("locked %d times, left %d times", got.Load(), left.Load())
		nothingLeft(t, p.clients...)
		for _, ss := range processes {
			l := k.of(ss, "lock")
			kit.Lock(t, kit.Background, l)
			kit.Unlock(t, kit.Background, l)
		}
	})
}
