package interop_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
)

var oddNames = []string{
	"plain", "a:b:c", "{tag}", "{tag}:x", "x{tag}z", "a{b}{c}", "{a}:rwlock_timeout:1", "mode",
	"Straße 🔒 漢字", "{ключ}:é", "100%+&=\"'\\", "redisson_lock__channel:{x}",
}

// Names with braces, colons and letters of any script mean the same lock to both.
func TestNamesMeanTheSameLock(t *testing.T) {
	t.Parallel()
	eachRedisson(t, func(t *testing.T, version string) {
		t.Parallel()
		meet(t, version, single(redistest.Start(t), 30*time.Second))
	})
}

// In a cluster, where messages go through the shards.
func TestClusterMeansTheSameLocks(t *testing.T) {
	t.Parallel()
	eachRedisson(t, func(t *testing.T, version string) {
		cluster := redistest.StartCluster(t, 3, 0)
		meet(t, version, where{"cluster", cluster.Nodes()[0].Addr(), 30 * time.Second})
	})
}

// meet has both sides exclude and wake each other under every name, far within a lease.
func meet(t *testing.T, version string, at where) {
	g, j := at.start(t, ""), at.start(t, version)
	for _, name := range oddNames {
		for _, kind := range []string{"lock", "fair", "fenced", "write", "read"} {
			for _, who := range [][2]*peer{{g, j}, {j, g}} {
				wanted := kind
				if kind == "read" {
					wanted = "write"
				}
				who[0].do("holder", "lock", kind, name)
				if who[1].gets("waiter", wanted, name) {
					t.Fatalf("%q: %v got the %s lock that %v holds", name, who[1], kind, who[0])
				}
				waits := who[1].begin("waiter", "lock", wanted, name)
				waits.waits(15 * time.Millisecond)
				start := time.Now()
				who[0].do("holder", "unlock", kind, name)
				waits.must()
				if d := time.Since(start); d > 5*time.Second {
					t.Errorf("%q: %v waited %v for the %s lock that %v had released", name, who[1], d, kind, who[0])
				}
				who[1].do("waiter", "unlock", wanted, name)
			}
		}
	}
}
