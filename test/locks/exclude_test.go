package locks_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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

// visit takes and ends a lock. Meanwhile it adds itself to a number in Redis, a reader 1 and a writer 10000, and checks
// who else is there. A writer compares its token with that of the last one, which it reads and then writes; a reader
// sees to it that this does not change.
func visit(client rueidis.Client, l relock.Locker) (err error) {
	if err := l.Lock(kit.Background); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Unlock(kit.Background)) }()
	me, most, token := int64(1), int64(9999), int64(0)
	if fenced, ok := l.(kit.FencedLocker); ok {
		me, most, token = 10000, 10000, fenced.FencingToken()
	}
	add := func(n int64) (int64, error) {
		return client.Do(kit.Background, client.B().Incrby().Key("crowd").Increment(n).Build()).AsInt64()
	}
	last := func() (int64, error) {
		return client.Do(kit.Background, client.B().Incrby().Key("token").Increment(0).Build()).AsInt64()
	}
	if n, err := add(me); err != nil || n < me || n > most {
		return fmt.Errorf("one that adds %d is among %d: %w", me, n, err)
	}
	before, err := last()
	switch {
	case err != nil:
		return err
	case token == 0:
		if after, err := last(); err != nil || after != before {
			return fmt.Errorf("token %d changed to %d under a reader: %w", before, after, err)
		}
	case token <= before:
		return fmt.Errorf("token %d after %d", token, before)
	default:
		set := client.B().Set().Key("token").Value(strconv.FormatInt(token, 10)).Build()
		if err := client.Do(kit.Background, set).Error(); err != nil {
			return err
		}
	}
	if n, err := add(-me); err != nil || me == most && n != 0 {
		return fmt.Errorf("a writer leaves %d: %w", n, err)
	}
	return nil
}

func init() {
	kit.Roles["visit"] = func(args []string) { // address, kind
		s, client := kit.ChildSession(args[0])
		k := kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == args[1] })]
		fmt.Println("ready")
		_, _ = fmt.Scanln(new(string))
		kit.ChildCheck(kit.Together(4, func(i int) error {
			for n := range 25 {
				l := k.on(s, "lock")
				if rw, ok := l.(*relock.RWMutex); ok && (i+n)%4 != 0 { // every fourth visit writes
					l = rw.RLocker()
				}
				if err := visit(client, l); err != nil {
					return err
				}
			}
			return nil
		}))
		kit.ChildCheck(s.Close(kit.Background))
		fmt.Println("done")
	}
}

func TestLocksExcludeProcesses(t *testing.T) {
	eachOf(t, func(t *testing.T, k *kind) {
		server := redistest.Start(t)
		kit.AtOnce(t, 3, "visit", server.Addr(), k.name)
		mustBeQuiet(t, kit.NewClient(t, server), "lock")
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
			patience := 20 * time.Millisecond
			for time.Now().Before(end) || got.Load() == 0 || left.Load() == 0 {
				if got.Load() == 0 && time.Now().After(end) {
					patience += time.Millisecond // too short for a busy machine
				}
				ctx, cancel := context.WithTimeoutCause(parent, rand.N(patience), kit.ErrStop)
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
		nothingLeft(t, p.clients...)
		for _, ss := range processes {
			l := k.of(ss, "lock")
			kit.Lock(t, kit.Background, l)
			kit.Unlock(t, kit.Background, l)
		}
	})
}
