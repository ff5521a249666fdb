package topology_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// inBackground begins to start a session.
func inBackground(t testing.TB, client rueidis.Client, opts ...relock.SessionOption) *relock.Session {
	t.Helper()
	s, err := relock.NewSession(kit.Background, client, append(opts, relock.WithBackgroundStart())...)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := kit.ContextFor(kit.Soon)
		defer cancel()
		_ = s.Close(ctx)
		require.NoError(t, ctx.Err(), "it does not close")
	})
	return s
}

// locksSoon locks what a session can lock soon.
func locksSoon(t testing.TB, s *relock.Session) {
	t.Helper()
	redistest.Eventually(t, kit.Soon, "the session to start", func() bool {
		_, err := s.Inspect(kit.Background, "lock")
		return err == nil
	})
	for _, l := range []relock.Locker{s.Mutex("lock"), s.FairMutex("lock"), s.RWMutex("lock").RLocker(), s.Semaphore("permits", 1)} {
		kit.Lock(t, kit.Background, l)
		kit.Unlock(t, kit.Background, l)
	}
}

// What Sentinel or a cluster names as down may be there later: a Lock waits for it.
func TestASessionStartsWhenItsDeploymentIsThere(t *testing.T) {
	t.Parallel()
	sentinel := func(t *testing.T) (deployment, func(), func()) {
		s := redistest.StartSentinel(t)
		var old *redistest.Server
		return s, func() { old = s.Primary(); old.Kill() }, func() {
			_, err := s.WaitFailover(old)
			require.NoError(t, err)
		}
	}
	cluster := func(t *testing.T) (deployment, func(), func()) {
		c := redistest.StartCluster(t, 3, 0)
		return c, func() {
				for _, n := range c.Nodes() {
					n.Kill()
				}
			}, func() {
				for _, n := range c.Nodes() {
					require.NoError(t, n.Restart())
				}
				require.NoError(t, c.Settle())
			}
	}
	single := func(t *testing.T) (deployment, func(), func()) {
		s := redistest.Start(t)
		return replicated{s}, s.Kill, func() { require.NoError(t, s.Restart()) }
	}
	for name, start := range map[string]func(t *testing.T) (d deployment, down, up func()){
		"Sentinel": sentinel, "cluster": cluster, "single": single,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, down, up := start(t)
			client := d.Client(t)
			down()
			s := inBackground(t, client)
			ctx, cancel := kit.ContextFor(100 * time.Millisecond)
			defer cancel()
			require.ErrorIs(t, s.Mutex("lock").Lock(ctx), relock.ErrUnavailable)
			m := s.Mutex("lock")
			waits := kit.Async(func() error { return m.Lock(kit.Background) })
			up()
			select {
			case err := <-waits:
				require.NoError(t, err)
			case <-time.After(4 * kit.Soon):
				t.Fatal("it waits for ever")
			}
			kit.Unlock(t, kit.Background, m)
			locksSoon(t, s)
		})
	}
}

// What only an operator can put right is what calls return; when it is put right the session
// starts.
func TestASessionStartsWhenItsServerIsPutRight(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	user := func(name string, rules ...string) {
		admin(t, server, append([]string{"ACL", "SETUSER", name, "on", ">secret", "~*", "&*", "+@all"}, rules...)...)
	}
	alone, other := redistest.Start(t), redistest.Start(t)
	_, replicas := redistest.StartReplicas(t, 1)
	follow := func(s *redistest.Server, addr string) {
		host, port, err := net.SplitHostPort(addr)
		require.NoError(t, err)
		admin(t, s, "REPLICAOF", host, port)
	}
	for what, c := range map[string]struct {
		client rueidis.Client
		opts   []relock.SessionOption
		says   string
		repair func()
	}{
		"a replica": {replicas[0].Client(t), nil, "read-only replica", func() { admin(t, replicas[0], "REPLICAOF", "NO", "ONE") }},
		"too few replicas": {
			alone.Client(t), []relock.SessionOption{relock.WithReplicas(1, time.Second)}, "replicas have acknowledged",
			func() { follow(other, alone.Addr()) },
		},
		"no-scripts":  {nil, nil, "NOPERM", func() { user("no-scripts") }},
		"no-commands": {nil, nil, "may not run hset", func() { user("no-commands") }},
		"no-channels": {nil, nil, "relock_session:", func() { user("no-channels") }},
		"no-messages": {nil, nil, "subscribing to relock_session:", func() { user("no-messages") }},
	} {
		t.Run(what, func(t *testing.T) {
			rules := map[string][]string{
				"no-scripts": {"-eval", "-evalsha"}, "no-commands": {"-hset"}, "no-channels": {"resetchannels"}, "no-messages": {"-subscribe"},
			}
			if c.client == nil {
				user(what, rules[what]...)
				c.client = kit.NewClient(t, server, as(what, "secret"))
			}
			s := inBackground(t, c.client, c.opts...)
			found := func(err error) {
				t.Helper()
				require.ErrorContains(t, err, "the session has not started")
				require.ErrorContains(t, err, c.says)
				require.NotErrorIs(t, err, relock.ErrUnavailable)
				require.Equal(t, what == "too few replicas", errors.Is(err, relock.ErrReplicas))
			}
			for range 2 {
				found(s.Mutex("lock").Lock(kit.Background))
				_, err := s.RWMutex("lock").TryLock(kit.Background)
				found(err)
				_, err = s.Semaphore("permits", 2).Acquire(kit.Background)
				found(err)
				found(relock.NewGroup(s.Mutex("lock"), s.Mutex("more")).Lock(kit.Background))
				found(relock.NewRedlock([]*relock.Session{s}, "lock").Lock(kit.Background))
			}
			c.repair()
			locksSoon(t, s)
		})
	}
}
