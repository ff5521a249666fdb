package faults_test

import (
	"context"
	"errors"
	"fmt"
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

func init() { kit.Roles["redlock-counter"] = redlockCounter }

// redlockCounter counts under a Redlock, in a way that is exact only if nobody does the
// same at the same time, until its input ends its work. Then it says how often it has
// counted.
func redlockCounter(args []string) {
	lease, err := time.ParseDuration(args[0])
	kit.ChildCheck(err)
	counter, err := kit.Connect(args[1])
	kit.ChildCheck(err)
	var sessions []*relock.Session
	for _, addr := range args[2:] {
		s, _ := kit.ChildSession(addr, relock.WithLease(lease))
		sessions = append(sessions, s)
	}
	r := relock.NewRedlock(sessions, "lock")
	stop, cancel := context.WithCancel(kit.Background)
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		cancel()
	}()
	fmt.Println("ready")
	var n atomic.Int64
	kit.ChildCheck(kit.Together(2, func(int) error {
		for {
			if err := r.Lock(stop); stop.Err() != nil {
				if err == nil {
					return r.Unlock(kit.Background)
				}
				return nil
			} else if err != nil {
				return err
			}
			if err := kit.Bump(kit.Background, counter, "counter"); err != nil {
				return err
			}
			n.Add(1)
			if err := r.Err(); err != nil {
				return errors.Join(errors.New("the hold did not last as long as two commands"), err)
			}
			if err := r.Unlock(kit.Background); err != nil {
				fmt.Fprintln(os.Stderr, "counted, and then:", err)
			}
		}
	}))
	fmt.Println("counted", n.Load())
}

// Two of five servers at a time are killed and come back, each of them once, while three
// processes count. The Redis documentation says what a server must do that comes back
// within a lease: remember what it has granted, or else stay away until that has ended.
// With an append-only file that is synced at every write the servers here may come back
// at once; without one they stay away for longer than a lease.
func TestRedlockExcludesProcessesWhileServersRestart(t *testing.T) {
	for how, c := range map[string]struct {
		args  []string
		lease time.Duration
		away  time.Duration
	}{
		"with their data, at once":  {[]string{"--appendonly", "yes", "--appendfsync", "always"}, 10 * time.Second, 0},
		"without, after the leases": {nil, 3 * time.Second, 3200 * time.Millisecond},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			var servers []*redistest.Server
			var addrs []string
			for range 5 {
				s := redistest.Start(t, c.args...)
				servers, addrs = append(servers, s), append(addrs, s.Addr())
			}
			counter := redistest.Start(t)
			client := kit.NewClient(t, counter)
			require.NoError(t, client.Do(kit.Background, client.B().Set().Key("counter").Value("0").Build()).Error())
			var procs []*redistest.Proc
			for range 3 {
				procs = append(procs, redistest.Child(t, "redlock-counter", append([]string{c.lease.String(), counter.Addr()}, addrs...)...))
			}
			for _, p := range procs {
				_, err := p.Expect("ready", kit.Soon)
				require.NoError(t, err)
			}
			// goesOn waits until the lock has changed hands a number of times more.
			goesOn := func(when string) {
				t.Helper()
				from := kit.Counted(t, client, "counter")
				redistest.Eventually(t, kit.Soon, "the count to go on "+when, func() bool {
					return kit.Counted(t, client, "counter") >= from+50
				})
			}
			goesOn("at the start")
			for end := time.Now().Add(kit.Stress(t, 0)); ; {
				for _, down := range [][]int{{0, 1}, {2, 3}, {4, 0}} {
					for _, i := range down {
						servers[i].Kill()
					}
					killed := time.Now()
					goesOn(fmt.Sprint("without ", down))
					time.Sleep(time.Until(killed.Add(c.away)))
					for _, i := range down {
						require.NoError(t, servers[i].Restart())
					}
					goesOn(fmt.Sprint("with ", down, " again"))
				}
				if time.Now().After(end) {
					break
				}
			}
			sum := 0
			for _, p := range procs {
				require.NoError(t, p.Send("stop"))
			}
			for i, p := range procs {
				text, err := p.Expect("counted ", kit.Soon)
				require.NoError(t, err)
				n, err := strconv.Atoi(strings.TrimSpace(text))
				require.NoError(t, err)
				require.NotZero(t, n, "process %d", i)
				sum += n
			}
			require.Equal(t, sum, kit.Counted(t, client, "counter"))
			t.Logf("counted to %d", sum)
		})
	}
}
