package faults_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// One address in front of a failover, such as a virtual IP or a Service of Kubernetes: after the
// failover new connections lead to the new primary, and those that exist still to the old one.

// oldPrimaries says what may become of the old primary.
var oldPrimaries = map[string]func(t *testing.T, old, promoted *redistest.Server){
	"is a replica": func(t *testing.T, old, promoted *redistest.Server) {
		replicate(t, old, promoted.Addr())
	},
	"is a replica without its primary": func(t *testing.T, old, promoted *redistest.Server) {
		do(t, old, "CONFIG", "SET", "replica-serve-stale-data", "no")
		replicate(t, old, "127.0.0.1:1")
	},
	"hangs":   func(t *testing.T, old, _ *redistest.Server) { require.NoError(t, old.Freeze()) },
	"refuses": func(t *testing.T, old, _ *redistest.Server) { old.Kill() },
}

func replicate(t *testing.T, s *redistest.Server, primary string) {
	t.Helper()
	host, port, err := net.SplitHostPort(primary)
	require.NoError(t, err)
	do(t, s, "REPLICAOF", host, port)
}

// failover has the replica take over, and new connections through p lead to it.
func failover(t *testing.T, p *redistest.Proxy, primary, replica *redistest.Server,
	old func(t *testing.T, old, promoted *redistest.Server)) {
	t.Helper()
	redistest.Eventually(t, kit.Soon, "the replica to have everything", func() bool {
		return primary.Info("replication")["master_repl_offset"] == replica.Info("replication")["slave_repl_offset"]
	})
	do(t, replica, "REPLICAOF", "NO", "ONE")
	p.Retarget(replica.Addr())
	old(t, primary, replica)
}

// renewed waits until a lock is renewed in Redis, whose lease must not end before that.
func renewed(t *testing.T, s *redistest.Server, name string, done <-chan struct{}) {
	t.Helper()
	left := func() int { return int(do(t, s, "PTTL", name).(int64)) }
	for last := left(); ; last = left() {
		select {
		case <-done:
			t.Fatal("the hold is lost")
		case <-time.After(20 * time.Millisecond):
		}
		if left() > last {
			return
		}
	}
}

// patient clients do not close a silent connection for as long as a test lasts.
func patient(o *rueidis.ClientOption) { o.ConnWriteTimeout = time.Hour }

// The session stayed with the old primary for as long as that lived.
func TestSessionFollowsAnAddressToTheNewPrimary(t *testing.T) {
	t.Parallel()
	for what, old := range oldPrimaries {
		for with, mod := range map[string]func(*rueidis.ClientOption){
			"":            func(*rueidis.ClientOption) {},
			", RESP2":     func(o *rueidis.ClientOption) { o.AlwaysRESP2 = true },
			", pipelined": func(o *rueidis.ClientOption) { o.AlwaysPipelining = true },
		} {
			t.Run(what+with, func(t *testing.T) {
				t.Parallel()
				primary, replicas := redistest.StartReplicas(t, 1)
				p := redistest.NewProxy(t, primary.Addr())
				client := kit.NewClient(t, p, patient, mod)
				takePool(t, 4, client)() // it has idle connections to the old primary
				s := kit.SessionOn(t, client, relock.WithLease(10*time.Second))
				t.Cleanup(p.Cut)
				held, free := s.Mutex("held"), s.Mutex("free")
				goesOn(t, free)
				kit.Lock(t, kit.Background, held)
				failover(t, p, primary, replicas[0], old)
				goesOnAt(t, replicas[0], held, free)
			})
		}
	}
}

// goesOnAt checks that a hold lives, and that everything works, on a server.
func goesOnAt(t *testing.T, s *redistest.Server, held, free *relock.Mutex) {
	t.Helper()
	start := time.Now()
	goesOn(t, free)
	t.Logf("Lock and Unlock go on after %v", time.Since(start))
	renewed(t, s, "held", held.Done())

	// Messages arrive: what another session grants.
	theirs := kit.NewSession(t, s).Mutex("free")
	kit.Lock(t, kit.Background, theirs)
	got := kit.Async(func() error { return free.Lock(kit.Background) })
	redistest.Eventually(t, kit.Soon, "the waiter to queue", func() bool { return contenders(t, s, "free") == 1 })
	kit.Unlock(t, kit.Background, theirs)
	require.NoError(t, kit.Receive(t, got, "the lock"))
	kit.Unlock(t, kit.Background, free)
	kit.Unlock(t, kit.Background, held)
	freed(t, s, "held", "free")
}

// A connection of the pool that was refused as by a replica went back to it, for ever.
func TestLockWithReplicasFollowsAnAddress(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"is a replica", "hangs"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			primary, replicas := redistest.StartReplicas(t, 2)
			p := redistest.NewProxy(t, primary.Addr())
			client := kit.NewClient(t, p, patient)
			s := kit.SessionOn(t, client, relock.WithReplicas(1, time.Second))
			t.Cleanup(p.Cut)
			takePool(t, 4, client)()
			m := s.Mutex("it")
			goesOn(t, m)
			failover(t, p, primary, replicas[0], oldPrimaries[what])
			replicate(t, replicas[1], replicas[0].Addr())
			redistest.Eventually(t, kit.Soon, "a replica of the new primary", func() bool {
				return replicas[1].Info("replication")["master_link_status"] == "up"
			})
			goesOn(t, m)
		})
	}
}

// A router on the way has lost its table of connections: Lock failed until the client gave the
// connection up, and leases ran out.
func TestConnectionsThatGoSilentAreLeft(t *testing.T) {
	t.Parallel()
	for with, mod := range map[string]func(*rueidis.ClientOption){
		"RESP3":     func(*rueidis.ClientOption) {},
		"RESP2":     func(o *rueidis.ClientOption) { o.AlwaysRESP2 = true },
		"pipelined": func(o *rueidis.ClientOption) { o.AlwaysPipelining = true },
	} {
		t.Run(with, func(t *testing.T) {
			t.Parallel()
			server, p := kit.Proxied(t)
			client := kit.NewClient(t, p, patient, mod)
			takePool(t, 4, client)()
			s := kit.SessionOn(t, client, relock.WithLease(6*time.Second))
			t.Cleanup(p.Cut)
			held, free := s.Mutex("held"), s.Mutex("free")
			goesOn(t, free)
			kit.Lock(t, kit.Background, held)
			p.Forget()
			goesOnAt(t, server, held, free)
		})
	}
}

// The connection that all users of the client share is silent for a while. The session leaves it
// meanwhile, but closes it to nobody, and comes back.
func TestLeavingASilentConnectionHarmsNoOtherUser(t *testing.T) {
	t.Parallel()
	_, p := kit.Proxied(t)
	client := kit.NewClient(t, p, patient, func(o *rueidis.ClientOption) { o.PipelineMultiplex = -1 }) // one connection
	s := kit.SessionOn(t, client)
	t.Cleanup(p.Cut)
	m := s.Mutex("it")
	goesOn(t, m)
	id := func() int64 {
		n, err := client.Do(kit.Background, client.B().ClientId().Build()).AsInt64()
		require.NoError(t, err)
		return n
	}
	before := id()

	p.Hold(true)
	theirs := kit.Async(func() error { return client.Do(kit.Background, client.B().Incr().Key("n").Build()).Error() })
	goesOn(t, m)
	require.Empty(t, theirs)
	p.Hold(false)
	require.NoError(t, kit.Receive(t, theirs, "the application's reply"))
	require.Equal(t, before, id(), "the shared connection")
	redistest.Eventually(t, kit.Soon, "the session to need no connection but the shared one and the subscription",
		func() bool { return p.Connections() == 2 })
	goesOn(t, m)
	require.Equal(t, 2, p.Connections())
}

// A client that was there before the failover leads to the old primary, which is a replica now.
func TestSessionStartsOnAClientFromBeforeAFailover(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"is a replica", "hangs"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			primary, replicas := redistest.StartReplicas(t, 1)
			p := redistest.NewProxy(t, primary.Addr())
			client := kit.NewClient(t, p, patient)
			takePool(t, 4, client)()
			failover(t, p, primary, replicas[0], oldPrimaries[what])
			s := kit.SessionOn(t, client)
			t.Cleanup(p.Cut)
			goesOn(t, s.Mutex("it"))
		})
	}
}

// RESP2 needs a second socket for messages. It went silent, and the session, which asks for the role
// on the other one, took the keeper of a lock for awake: it was recalled when the client gave up.
func TestSilentSocketOfMessagesIsNoticed(t *testing.T) {
	t.Parallel()
	server, p := kit.Proxied(t)
	client := kit.NewClient(t, p, patient, func(o *rueidis.ClientOption) { o.AlwaysRESP2 = true })
	kept := kit.SessionOn(t, client).Mutex("kept", relock.WithKeep(time.Hour))
	t.Cleanup(p.Cut)
	for range 3 {
		goesOn(t, kept)
	}
	require.NotEmpty(t, holderID(t, server, "kept"))
	for line := range strings.Lines(do(t, server, "CLIENT", "LIST", "TYPE", "pubsub").(string)) {
		_, addr, _ := strings.Cut(line, " addr=")
		addr, _, _ = strings.Cut(addr, " ")
		p.Forget(addr)
	}
	other := kit.NewSession(t, server)
	got := kit.Async(func() error { return other.Mutex("kept").Lock(kit.Background) })
	require.NoError(t, kit.Receive(t, got, "the kept lock"))
}
