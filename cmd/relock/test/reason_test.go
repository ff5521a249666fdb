package test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// relock says why it ends its command: what became of the lock, and what Redis said.
func TestEndOfTheCommandHasAReason(t *testing.T) {
	const works = "echo ready; exec sleep 100"
	for name, c := range map[string]struct {
		fault func(t *testing.T, s *redistest.Server, p *redistest.Proxy)
		says  []string
	}{
		"forced open": {func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) {
			run(t, s, "unlock", "--yes", "job").ends(0)
		}, []string{"the lock is lost: it was forced open"}},
		"deleted": {func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) {
			admin(t, s, "DEL", "job")
		}, []string{"the lock is lost: it is not in Redis any more"}},
		"refused": {func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) {
			admin(t, s, "ACL", "SETUSER", "default", "-evalsha", "-eval")
		}, []string{"the lock is valid for", "NOPERM"}},
		"gone": {func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) {
			s.Kill()
		}, []string{"the lock is valid for", "connect"}},
		"silent": {func(_ *testing.T, _ *redistest.Server, p *redistest.Proxy) {
			p.Blackhole(true)
		}, []string{"the lock is valid for", "no answer from Redis"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := server(t)
			p := redistest.NewProxy(t, s.Addr())
			r := start(t, command(p.Addr(), sh("-v --lease 6s", "job", works)...))
			r.says("ready")
			c.fault(t, s, p)
			r.ends(143)
			for _, text := range c.says {
				require.Contains(t, r.err.String(), text)
			}
			require.NotContains(t, r.err.String(), "is released")
		})
	}
}

// What Redis has not confirmed is not called released.
func TestReleaseThatIsNotConfirmedIsTold(t *testing.T) {
	s := server(t)
	end := filepath.Join(t.TempDir(), "end")
	p := redistest.NewProxy(t, s.Addr())
	r := start(t, command(p.Addr(), sh("-v --lease 1h", "job", "echo ready; while ! [ -e "+end+" ]; do sleep 0.02; done")...))
	r.says("ready")
	p.Blackhole(true)
	require.NoError(t, os.WriteFile(end, nil, 0o600))
	r.ends(0)
	r.warns("the release is not confirmed")
	require.NotContains(t, r.err.String(), "is released")
	locked(t, s, "job", true)
}

// A replica that has lost its primary answers: that it is a replica.
func TestReplicaWithoutItsPrimaryIsNotCalledSilent(t *testing.T) {
	s := server(t)
	admin(t, s, "REPLICAOF", "127.0.0.1", redistest.FreePort(t))
	r := run(t, s, "run", "-w", "2s", "job", "--", "true")
	r.ends(69)
	require.Contains(t, r.err.String(), "replica")
	require.NotContains(t, r.err.String(), "does not answer")
}
