package locks_test

import (
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
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A crowd is what the holders of a read-write lock do: each adds itself to a number in
// Redis, a reader 1 and a writer 10000, and checks who else is there. Writers change a
// value by reading and then writing it; readers see to it that it does not change.
type crowd struct{ client rueidis.Client }

func (c crowd) add(n int64) (int64, error) {
	return c.client.Do(kit.Background, c.client.B().Incrby().Key("crowd").Increment(n).Build()).AsInt64()
}

func (c crowd) value() (string, error) {
	v, err := c.client.Do(kit.Background, c.client.B().Get().Key("value").Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return "", nil
	}
	return v, err
}

func (c crowd) read() error {
	n, err := c.add(1)
	if err != nil || n < 1 || n >= 10000 {
		return fmt.Errorf("a reader among %d: %w", n, err)
	}
	before, err := c.value()
	if err != nil {
		return err
	}
	if after, err := c.value(); err != nil || after != before {
		return fmt.Errorf("%q changed to %q under a reader: %w", before, after, err)
	}
	_, err = c.add(-1)
	return err
}

func (c crowd) write() error {
	if n, err := c.add(10000); err != nil || n != 10000 {
		return fmt.Errorf("a writer among %d: %w", n, err)
	}
	if err := kit.Bump(kit.Background, c.client, "value"); err != nil {
		return err
	}
	n, err := c.add(-10000)
	if err == nil && n != 0 {
		err = fmt.Errorf("a writer leaves %d", n)
	}
	return err
}

// visit does it once under the lock, as a writer or a reader.
func (c crowd) visit(ctx context.Context, rw *relock.RWMutex, writes bool) error {
	l, do := rw.RLocker(), c.read
	if writes {
		l, do = rw, c.write
	}
	if err := l.Lock(ctx); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return l.Unlock(ctx)
}

// mingle has a goroutine for each lock visit so many times; every fourth visit writes.
func (c crowd) mingle(locks []*relock.RWMutex, rounds int) error {
	return kit.Together(len(locks), func(i int) error {
		for n := range rounds {
			if err := c.visit(kit.Background, locks[i], (i+n)%4 == 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// written is how often the crowd writes.
func written(locks, rounds int) (n int) {
	for i := range locks {
		for r := range rounds {
			if (i+r)%4 == 0 {
				n++
			}
		}
	}
	return n
}

// mustBeQuiet checks that nobody holds or waits for the lock: of it only the fence stays.
func mustBeQuiet(t testing.TB, client rueidis.Client, name string, sessions ...*relock.Session) {
	t.Helper()
	redistest.Eventually(t, kit.Quickly, "everything to be released", func() bool {
		for _, key := range kit.Keys(t, client) {
			switch {
			case key == name || strings.Contains(key, "rwlock_timeout") || strings.HasPrefix(key, "relock_rwqueue:"):
				return false
			}
		}
		return true
	})
	for _, s := range sessions {
		require.False(t, peek.KnowsRW(s), "the session remembers something")
	}
}

func TestRWMutexReadersShareAndWritersExclude(t *testing.T) {
	const goroutines, rounds = 8, 12
	for what, tenure := range map[string]time.Duration{"long": time.Hour, "default": 10 * time.Millisecond, "none": 0} {
		shapes := map[string]func(t *testing.T, at kit.Addressed) func() (*relock.Session, *relock.RWMutex){
			"one value": func(t *testing.T, at kit.Addressed) func() (*relock.Session, *relock.RWMutex) {
				s := kit.NewSession(t, at, relock.WithTenure(tenure))
				rw := s.RWMutex("lock")
				return func() (*relock.Session, *relock.RWMutex) { return s, rw }
			},
			"a value each": func(t *testing.T, at kit.Addressed) func() (*relock.Session, *relock.RWMutex) {
				s := kit.NewSession(t, at, relock.WithTenure(tenure))
				return func() (*relock.Session, *relock.RWMutex) { return s, s.RWMutex("lock") }
			},
			"two sessions": func(t *testing.T, at kit.Addressed) func() (*relock.Session, *relock.RWMutex) {
				ss := []*relock.Session{kit.NewSession(t, at, relock.WithTenure(tenure)), kit.NewSession(t, at, relock.WithTenure(tenure))}
				n := 0
				return func() (*relock.Session, *relock.RWMutex) { n++; return ss[n%2], ss[n%2].RWMutex("lock") }
			},
		}
		for shape, with := range shapes {
			if what == "long" && shape == "two sessions" {
				continue // a session may read that long while the other one waits to write
			}
			t.Run(what+"/"+shape, func(t *testing.T) {
				kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
					client, value := kit.NewClient(t, at), with(t, at)
					var locks []*relock.RWMutex
					var sessions []*relock.Session
					for range goroutines {
						s, rw := value()
						locks, sessions = append(locks, rw), append(sessions, s)
					}
					require.NoError(t, crowd{client}.mingle(locks, rounds))
					require.Equal(t, written(goroutines, rounds), kit.Counted(t, client, "value"))
					mustBeQuiet(t, client, "lock", sessions...)
				})
			})
		}
	}
}

func init() {
	kit.Roles["rw-mingle"] = func(args []string) { // address, goroutines, rounds
		s, client := kit.ChildSession(args[0])
		goroutines, _ := strconv.Atoi(args[1])
		rounds, _ := strconv.Atoi(args[2])
		var locks []*relock.RWMutex
		for range goroutines {
			locks = append(locks, s.RWMutex("lock"))
		}
		var line string
		fmt.Println("ready")
		_, _ = fmt.Fscanln(os.Stdin, &line)
		kit.ChildCheck(crowd{client}.mingle(locks, rounds))
		kit.ChildCheck(s.Close(kit.Background))
		fmt.Println("done")
	}
}

func TestRWMutexOfSeveralProcesses(t *testing.T) {
	t.Parallel()
	const processes, goroutines, rounds = 3, 4, 25
	server := redistest.Start(t)
	client := kit.NewClient(t, server)
	kit.AtOnce(t, processes, "rw-mingle", server.Addr(), strconv.Itoa(goroutines), strconv.Itoa(rounds))
	require.Equal(t, processes*written(goroutines, rounds), kit.Counted(t, client, "value"))
	mustBeQuiet(t, client, "lock")
}

func TestRWMutexTryLock(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, other := kit.NewSession(t, at), kit.NewSession(t, at)
		for _, a := range []*relock.RWMutex{s.RWMutex("lock"), other.RWMutex("lock")} {
			rw, same := s.RWMutex("lock"), s.RWMutex("lock")
			require.True(t, kit.TryLock(t, kit.Background, rw))
			for _, b := range []*relock.RWMutex{rw, same, a} {
				require.False(t, kit.TryLock(t, kit.Background, b))
				require.False(t, kit.TryLock(t, kit.Background, b.RLocker()))
			}
			kit.Unlock(t, kit.Background, rw)
			require.True(t, kit.TryLock(t, kit.Background, rw.RLocker()))
			for _, b := range []*relock.RWMutex{rw, same, a} {
				require.False(t, kit.TryLock(t, kit.Background, b))
				require.True(t, kit.TryLock(t, kit.Background, b.RLocker()))
			}
			for _, b := range []*relock.RWMutex{rw, same, a, rw} {
				kit.Unlock(t, kit.Background, b.RLocker())
			}
			require.True(t, kit.TryLock(t, kit.Background, a))
			kit.Unlock(t, kit.Background, a)
		}
		mustBeQuiet(t, kit.NewClient(t, at), "lock", s, other)
	})
}

// They neither wait for each other nor stop each other.
func TestRWMutexTryRLockOfManyAtOnce(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s := kit.NewSession(t, at)
		for range 20 {
			rw := s.RWMutex("lock")
			require.NoError(t, kit.Together(16, func(int) error {
				if ok, err := rw.TryRLock(kit.Background); !ok || err != nil {
					return fmt.Errorf("%t, %w", ok, err)
				}
				return nil
			}))
			for range 16 {
				kit.Unlock(t, kit.Background, rw.RLocker())
			}
		}
		mustBeQuiet(t, kit.NewClient(t, at), "lock", s)
	})
}
