package locks_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A pair is a value of a lock, and its side for readers, or else the same.
type pair struct{ write, read relock.Locker }

var pairs = map[string]func(s *relock.Session, o ...relock.LockOption) pair{
	"Mutex": func(s *relock.Session, o ...relock.LockOption) pair {
		m := s.Mutex("lock", o...)
		return pair{m, m}
	},
	"FairMutex": func(s *relock.Session, o ...relock.LockOption) pair {
		m := s.FairMutex("lock", o...)
		return pair{m, m}
	},
	"RWMutex": func(s *relock.Session, o ...relock.LockOption) pair {
		rw := s.RWMutex("lock", o...)
		return pair{rw, rw.RLocker()}
	},
}

func TestLocksExcludeGoroutines(t *testing.T) {
	const goroutines, rounds = 8, 12
	type maker = func(t *testing.T, at kit.Addressed, tenure relock.SessionOption) func() *relock.Session
	shapes := map[string]maker{
		"a value each": func(t *testing.T, at kit.Addressed, tenure relock.SessionOption) func() *relock.Session {
			s := kit.NewSession(t, at, tenure)
			return func() *relock.Session { return s }
		},
		"a session each": func(t *testing.T, at kit.Addressed, tenure relock.SessionOption) func() *relock.Session {
			return func() *relock.Session { return kit.NewSession(t, at, tenure) }
		},
		"a session each on one client": func(t *testing.T, at kit.Addressed, tenure relock.SessionOption) func() *relock.Session {
			client := kit.NewClient(t, at)
			return func() *relock.Session { return kit.SessionOn(t, client, tenure) }
		},
	}
	shapes["one value"] = shapes["a value each"]
	for kind, of := range pairs {
		for shape, with := range shapes {
			for _, tenure := range []time.Duration{time.Hour, 10 * time.Millisecond, 0} {
				if kind == "FairMutex" && tenure > 0 || kind == "RWMutex" && tenure == time.Hour && strings.HasPrefix(shape, "a session each") {
					continue // has no tenure; may be read that long while another session waits to write
				}
				t.Run(fmt.Sprint(kind, ", ", shape, ", ", tenure), func(t *testing.T) {
					t.Parallel()
					server := redistest.Start(t)
					client, session := kit.NewClient(t, server), with(t, server, relock.WithTenure(tenure))
					var locks []pair
					var sessions []*relock.Session
					for range goroutines {
						s := session()
						sessions = append(sessions, s)
						if len(locks) > 0 && shape == "one value" {
							locks = append(locks, locks[0])
						} else {
							locks = append(locks, of(s))
						}
					}
					require.NoError(t, crowd{client}.mingle(locks, rounds))
					crowd{client}.wantWritten(t, kind, goroutines, rounds, 1)
					mustBeQuiet(t, client, "lock", sessions...)
				})
			}
		}
	}
}

func init() {
	kit.Roles["mingle"] = func(args []string) { // address, kind, goroutines, rounds
		s, client := kit.ChildSession(args[0])
		goroutines, _ := strconv.Atoi(args[2])
		rounds, _ := strconv.Atoi(args[3])
		var locks []pair
		for range goroutines {
			locks = append(locks, pairs[args[1]](s))
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
	for kind := range pairs {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			client := kit.NewClient(t, server)
			kit.AtOnce(t, processes, "mingle", server.Addr(), kind, strconv.Itoa(goroutines), strconv.Itoa(rounds))
			crowd{client}.wantWritten(t, kind, goroutines, rounds, processes)
			mustBeQuiet(t, client, "lock")
		})
	}
}

// Everybody at once: several sessions with several goroutines, with and without owners and leases of
// their own, who lose patience at random. Nobody's turn may get lost, and in the end nothing is left.
func TestCancelStorm(t *testing.T) {
	for kind, of := range pairs {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			client := kit.NewClient(t, server)
			var sessions []*relock.Session
			for i := range 3 {
				sessions = append(sessions, kit.NewSession(t, server, relock.WithTenure(time.Duration(i)*5*time.Millisecond)))
			}
			const goroutines = 6
			shared := of(sessions[2])
			end := time.Now().Add(kit.Stress(t, time.Second))
			var had, left, writes atomic.Int64
			require.NoError(t, kit.Together(len(sessions)*goroutines, func(i int) error {
				s, parent := sessions[i/goroutines], kit.Background
				locks := of(s)
				switch i % goroutines {
				case 0:
					parent = s.NewContext(parent)
				case 1, 2:
					if s == sessions[2] {
						locks = shared
					}
				case 3:
					locks = of(s, relock.WithFixedLease(time.Minute))
				}
				for n := 0; time.Now().Before(end) || writes.Load() == 0 || left.Load() == 0; n++ {
					l := locks.read
					if n%3 == 0 {
						l = locks.write
					}
					ctx, cancel := context.WithTimeoutCause(parent, rand.N(20*time.Millisecond), kit.ErrStop)
					err := l.Lock(ctx)
					cancel()
					if errors.Is(err, kit.ErrStop) {
						left.Add(1)
						continue
					}
					if err == nil {
						had.Add(1)
						if _, fenced := l.(kit.FencedLocker); fenced {
							writes.Add(1)
						}
						if err = (crowd{client}).use(l); err == nil {
							err = l.Unlock(parent)
						}
					}
					if err != nil {
						return fmt.Errorf("goroutine %d: %w", i, err)
					}
				}
				return nil
			}))
			t.Logf("%d times had, %d times left", had.Load(), left.Load())
			require.EqualValues(t, writes.Load(), kit.Counted(t, client, "value"))
			mustBeQuiet(t, client, "lock", sessions...)
			for _, s := range sessions {
				l := of(s).write
				kit.Lock(t, kit.Background, l)
				kit.Unlock(t, kit.Background, l)
			}
		})
	}
}
