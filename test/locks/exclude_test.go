package locks_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A pair is a value of a lock, and its side for readers, or else the same.
type pair struct{ write, read relock.Locker }

var pairs = map[string]func(s *relock.Session) pair{
	"Mutex":     func(s *relock.Session) pair { m := s.Mutex("lock"); return pair{m, m} },
	"FairMutex": func(s *relock.Session) pair { m := s.FairMutex("lock"); return pair{m, m} },
	"RWMutex":   func(s *relock.Session) pair { rw := s.RWMutex("lock"); return pair{rw, rw.RLocker()} },
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
