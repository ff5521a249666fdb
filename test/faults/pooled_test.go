package faults_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// overlapping counts, for a time, how often two sessions hold a lock at once that the second has,
// by a replica that was promoted, and how often the first one gets it.
func overlapping(t *testing.T, m, theirs *relock.Mutex, d time.Duration) (overlaps, mine int) {
	t.Helper()
	for start := time.Now(); time.Since(start) < d; time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(kit.Background, 3*time.Second)
		if theirs.Lock(ctx) == nil {
			ok, err := m.TryLock(ctx)
			if err != nil {
				t.Log(time.Since(start), "TryLock:", err)
			}
			if ok {
				if m.Err() == nil && theirs.Err() == nil {
					overlaps++
				}
				_ = m.Unlock(ctx)
			}
			_ = theirs.Unlock(ctx)
		}
		if err := m.Lock(ctx); err == nil {
			mine++
			_ = m.Unlock(ctx)
		} else {
			t.Log(time.Since(start), "Lock:", err)
		}
		cancel()
	}
	return overlaps, mine
}

// killNormal kills the ordinary connections at s.
func killNormal(s *redistest.Server) {
	_, _ = s.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
}

// moving returns a primary, a replica of it, and what leads to the primary until the address moves.
func moving(t *testing.T) (primary, replica *redistest.Server, p *redistest.Proxy) {
	t.Helper()
	primary, replicas := redistest.StartReplicas(t, 1)
	return primary, replicas[0], redistest.NewProxy(t, primary.Addr())
}

// INFO (and ROLE) hidden by ACL; the old primary wakes up and takes itself for the primary.
func TestServerThatHidesItsIdentityDoesNotLeadBackToAnOldPrimary(t *testing.T) {
	t.Parallel()
	for name, acl := range map[string][]string{"info": {"-info"}, "role": {"-role"}, "both": {"-info", "-role"}} {
		for _, kill := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " kill=", kill), func(t *testing.T) {
				t.Parallel()
				primary, replica, p := moving(t)
				s := kit.SessionOn(t, kit.NewClient(t, p, patient), relock.WithLease(10*time.Second))
				t.Cleanup(p.Cut)
				m, held := s.Mutex("free"), s.Mutex("held")
				goesOn(t, m)
				kit.Lock(t, kit.Background, held)
				failover(t, p, primary, replica, func(t *testing.T, old, promoted *redistest.Server) {
					for _, srv := range []*redistest.Server{old, promoted} {
						do(t, srv, append([]string{"ACL", "SETUSER", "default"}, acl...)...)
					}
					require.NoError(t, old.Freeze())
				})
				start := time.Now()
				goesOn(t, m)
				t.Log("goes on after", time.Since(start))
				theirs := kit.NewSession(t, replica).Mutex("free")
				require.NoError(t, primary.Thaw())
				if kill {
					time.Sleep(500 * time.Millisecond)
					killNormal(replica)
				}
				overlaps, mine := overlapping(t, m, theirs, 6*time.Second)
				require.Zero(t, overlaps, "of %d", mine)
				require.NotZero(t, mine)
				require.NoError(t, held.Err())
			})
		}
	}
}

// The application gives connections back to the pool that lead to the old primary, which has woken
// up and takes itself for the primary. Each new connection leads to the new one. The session's own
// connection breaks.
func TestPooledConnectionIsNotANewOne(t *testing.T) {
	t.Parallel()
	primary, replica, p := moving(t)
	client := kit.NewClient(t, p, patient)
	s := kit.SessionOn(t, client, relock.WithLease(10*time.Second))
	t.Cleanup(p.Cut)
	m, held := s.Mutex("free"), s.Mutex("held")
	goesOn(t, m)
	kit.Lock(t, kit.Background, held)
	giveBack := takePool(t, 2, client) // such as for BLPOP
	failover(t, p, primary, replica, oldPrimaries["hangs"])
	goesOn(t, m)
	theirs := kit.NewSession(t, replica).Mutex("free")
	require.NoError(t, primary.Thaw())
	time.Sleep(time.Second)
	giveBack()
	killNormal(replica)
	overlaps, mine := overlapping(t, m, theirs, 6*time.Second)
	require.Zero(t, overlaps, "of %d", mine)
	require.NotZero(t, mine)
	require.NoError(t, held.Err())
}

// The same with BLPOP by the client itself.
func TestPooledConnectionOfABlockingCommandIsNotANewOne(t *testing.T) {
	t.Parallel()
	primary, replica, p := moving(t)
	client := kit.NewClient(t, p, patient)
	s := kit.SessionOn(t, client, relock.WithLease(10*time.Second))
	t.Cleanup(p.Cut)
	m, held := s.Mutex("free"), s.Mutex("held")
	goesOn(t, m)
	kit.Lock(t, kit.Background, held)
	pop := kit.Async(func() error {
		return client.Do(kit.Background, client.B().Blpop().Key("none").Timeout(6).Build()).Error()
	})
	time.Sleep(200 * time.Millisecond)
	failover(t, p, primary, replica, oldPrimaries["hangs"])
	goesOn(t, m)
	theirs := kit.NewSession(t, replica).Mutex("free")
	require.NoError(t, primary.Thaw())
	t.Log(kit.Receive(t, pop, "BLPOP"))
	killNormal(replica)
	overlaps, mine := overlapping(t, m, theirs, 6*time.Second)
	require.Zero(t, overlaps, "of %d", mine)
	require.NotZero(t, mine)
	require.NoError(t, held.Err())
}

// The shared connection hangs, and the session's own is killed again and again.
func TestHoldOutlivesThatItsConnectionIsKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{700 * time.Millisecond, 1500 * time.Millisecond} {
		t.Run(every.String(), func(t *testing.T) {
			t.Parallel()
			server, p := kit.Proxied(t)
			s := kit.SessionOn(t, kit.NewClient(t, p, patient), relock.WithLease(10*time.Second))
			t.Cleanup(p.Cut)
			m, held := s.Mutex("it"), s.Mutex("held")
			goesOn(t, m)
			kit.Lock(t, kit.Background, held)
			p.Hold(true)
			goesOn(t, m)
			stop := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(every):
						killNormal(server)
					}
				}
			})
			n, failed := 0, 0
			var last error
			for start := time.Now(); time.Since(start) < 20*time.Second; time.Sleep(20 * time.Millisecond) {
				ctx, cancel := context.WithTimeout(kit.Background, 3*time.Second)
				if err := m.Lock(ctx); err == nil {
					n++
					_ = m.Unlock(ctx)
				} else {
					failed++
					last = err
				}
				cancel()
			}
			close(stop)
			wg.Wait()
			t.Log(n, failed, last, held.Err())
			require.NoError(t, held.Err())
			require.NotZero(t, n)
		})
	}
}

// Locks with replicas: a connection of the pool leads to the old primary, which takes itself for
// that.
func TestLocksWithReplicasLeaveAPooledConnectionToAnOldPrimary(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.StartReplicas(t, 2)
	p := redistest.NewProxy(t, primary.Addr())
	client := kit.NewClient(t, p, patient)
	s := kit.SessionOn(t, client, relock.WithReplicas(1, time.Second), relock.WithLease(10*time.Second))
	t.Cleanup(p.Cut)
	m := s.Mutex("free")
	goesOn(t, m)
	giveBack := takePool(t, 2, client)
	failover(t, p, primary, replicas[0], oldPrimaries["hangs"])
	replicate(t, replicas[1], replicas[0].Addr())
	redistest.Eventually(t, kit.Soon, "a replica of the new primary", func() bool {
		return replicas[1].Info("replication")["master_link_status"] == "up"
	})
	goesOn(t, m)
	require.NoError(t, primary.Thaw())
	time.Sleep(time.Second)
	giveBack()
	var err error
	for start := time.Now(); time.Since(start) < 8*time.Second; time.Sleep(100 * time.Millisecond) {
		if err = m.Lock(kit.Background); err == nil {
			kit.Unlock(t, kit.Background, m)
			break
		}
		t.Log(time.Since(start), err)
	}
	require.NoError(t, err)
}

// The new primary is slow for a while, and the pool has a connection to the old one, which takes
// itself for the primary.
func TestSlowPrimaryIsNotLeftForAnOldOneInThePool(t *testing.T) {
	t.Parallel()
	primary, replica, p := moving(t)
	client := kit.NewClient(t, p, patient)
	s := kit.SessionOn(t, client, relock.WithLease(10*time.Second))
	t.Cleanup(p.Cut)
	m, held := s.Mutex("free"), s.Mutex("held")
	goesOn(t, m)
	kit.Lock(t, kit.Background, held)
	giveBack := takePool(t, 2, client)
	failover(t, p, primary, replica, func(*testing.T, *redistest.Server, *redistest.Server) {})
	// The shared connection breaks, and leads to the new primary.
	shared := ""
	for line := range strings.Lines(do(t, primary, "CLIENT", "LIST", "TYPE", "normal").(string)) {
		if strings.Contains(line, "cmd=eval") {
			shared, _, _ = strings.Cut(line, " ")
		}
	}
	do(t, primary, "CLIENT", "KILL", "ID", strings.TrimPrefix(shared, "id="))
	do(t, primary, "CLIENT", "KILL", "TYPE", "pubsub")
	goesOn(t, m)
	renewed(t, replica, "held", held.Done()) // it works with the new primary
	theirs := kit.NewSession(t, replica).Mutex("free")
	time.Sleep(3 * time.Second) // so that their age tells
	giveBack()
	sleep := kit.Async(func() error { _, err := replica.Do("DEBUG", "SLEEP", "2.5"); return err })
	overlaps, mine := overlapping(t, m, theirs, 8*time.Second)
	t.Log(kit.Receive(t, sleep, "sleep"), held.Err())
	require.Zero(t, overlaps, "of %d", mine)
	require.NotZero(t, mine)
	require.NoError(t, held.Err())
}
