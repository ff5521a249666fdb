package locks_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A crowd is what the holders of a lock do: each adds itself to a number in Redis, a reader 1 and a
// writer 10000, and checks who else is there. Writers change a value by reading and then writing it,
// and compare their tokens with the last; readers see to it that the value does not change.
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
	if err = errors.Join(err, c.client.Do(kit.Background, set).Error(), kit.Bump(kit.Background, c.client, "value")); err != nil {
		return err
	}
	n, err := c.add(-10000)
	if err == nil && n != 0 {
		err = fmt.Errorf("a writer leaves %d", n)
	}
	return err
}

// use does it once, by what l is.
func (c crowd) use(l relock.Locker) error {
	if fenced, ok := l.(kit.FencedLocker); ok {
		return c.write(fenced.FencingToken())
	}
	return c.read()
}

// visit does it once under the lock.
func (c crowd) visit(ctx context.Context, l relock.Locker) error {
	if err := l.Lock(ctx); err != nil {
		return err
	}
	if err := c.use(l); err != nil {
		return err
	}
	return l.Unlock(ctx)
}

// mingle has a goroutine for each lock visit so many times; every fourth visit writes.
func (c crowd) mingle(locks []pair, rounds int) error {
	return kit.Together(len(locks), func(i int) error {
		for n := range rounds {
			l := locks[i].read
			if (i+n)%4 == 0 {
				l = locks[i].write
			}
			if err := c.visit(kit.Background, l); err != nil {
				return err
			}
		}
		return nil
	})
}

// wantWritten checks how often the crowd has written.
func (c crowd) wantWritten(t *testing.T, kind string, locks, rounds, times int) {
	t.Helper()
	n := 0
	for i := range locks * rounds {
		if kind != "RWMutex" || (i/rounds+i%rounds)%4 == 0 {
			n += times
		}
	}
	require.Equal(t, n, kit.Counted(t, c.client, "value"))
}

// mustBeQuiet checks that nobody holds or waits for the lock: of it only the fence stays.
func mustBeQuiet(t testing.TB, client rueidis.Client, name string, sessions ...*relock.Session) {
	t.Helper()
	redistest.Eventually(t, kit.Quickly, "everything to be released", func() bool {
		for _, key := range kit.Keys(t, client) {
			if key == name || strings.Contains(key, "rwlock_timeout") || strings.HasPrefix(key, "relock_rwqueue:") || strings.HasPrefix(key, "relock_queue:") {
				return false
			}
		}
		return true
	})
	for _, s := range sessions {
		require.False(t, peek.KnowsRW(s), "the session remembers something")
	}
}
