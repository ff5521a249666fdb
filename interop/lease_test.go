package interop_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// Neither side's watchdog prunes or prolongs what is the other's. RELOCK_INTEROP_LEASE
// sets the lease of both, which is short by default.
func TestWatchdogsOfBothSidesCoexist(t *testing.T) {
	lease := setting(t, "RELOCK_INTEROP_LEASE", 3*time.Second)
	eachPair(t, lease, func(t *testing.T, _ where, g, j *peer) {
		kinds := []string{"lock", "fenced", "write", "fair"}
		for _, p := range []*peer{g, j} {
			for _, kind := range kinds {
				p.do("holder", "lock", kind, p.String()+kind)
			}
			p.do("holder", "lock", "read", "shared")
			p.do("holder", "lock", "read", p.String()+"read")
		}
		// Beside a reader that is renewed, one of the other side that is not. With several
		// read locks Redisson 3.x renews but the first, and of that all readers: what it
		// does not renew it loses to the next reader that leaves, its own too.
		j.do("leased", "lease", "read", "Goread", lease.Milliseconds())
		if !strings.Contains(t.Name(), "=3.") {
			g.do("leased", "lease", "read", "Javaread", lease.Milliseconds())
		}

		var waiting []*call
		for _, kind := range kinds {
			waiting = append(waiting, j.begin(kind, "lock", kind, "Go"+kind), g.begin(kind, "lock", kind, "Java"+kind))
		}
		waiting[0].waits(3*lease + lease/2)
		for _, c := range waiting {
			c.waits(0)
		}

		// A reader that is not renewed is no reader of the other side's. It keeps writers out for a lease at most when
		// the last that lives has left: nobody looks for dead readers, but the hash expires.
		for lock, holder := range map[string]*peer{"Goread": g, "Javaread": j} {
			seen, want := g.do("asks", "inspect", "read", lock), holder.id+":"
			if holder == j {
				want = j.do("holder", "thread")
			}
			require.Equal(t, 1, strings.Count(seen, " "+want), "%s: %s; want one hold of %s", lock, seen, want)
			require.Regexp(t, "^shared ", seen)
			holder.do("holder", "unlock", "read", lock)
			for _, p := range []*peer{g, j} {
				require.NoError(t, p.begin("then", "lock", "write", lock).wait(2*lease).err)
				p.do("then", "unlock", "write", lock)
			}
		}
		for _, p := range []*peer{g, j} {
			for _, kind := range kinds {
				p.do("holder", "unlock", kind, p.String()+kind)
			}
		}
		for _, c := range waiting {
			c.must()
		}
		for _, reader := range []*peer{g, j} {
			for _, p := range []*peer{g, j} {
				require.False(t, p.gets("third", "write", "shared"), "a writer of %v, while %v reads", p, reader)
			}
			reader.do("holder", "unlock", "read", "shared")
		}
		require.True(t, g.gets("third", "write", "shared"), "the last reader has left")
	})
}

// A killed process frees its locks within its lease, and its share of a read lock within the longest lease of those that
// read together.
func TestKilledHolderOfEitherSideFreesItsLocks(t *testing.T) {
	t.Parallel()
	eachRedisson(t, func(t *testing.T, version string) {
		for _, dies := range []string{version, ""} {
			lives, name := version, "Go"
			if dies != "" {
				lives, name = "", "Java"
			}
			t.Run(name+" dies", func(t *testing.T) {
				t.Parallel()
				const lease = 2 * time.Second
				at := single(redistest.Start(t), lease)
				victim, other := at.start(t, dies), at.start(t, lives)
				kinds := []string{"lock", "fenced", "write", "fair", "read"}
				var waiting []*call
				for _, kind := range kinds {
					victim.do("holder", "lock", kind, kind)
					waiting = append(waiting, other.begin(kind, "lock", rival(kind), kind))
				}
				// Another reader beside it, which lives on, and one in a mixed company.
				victim.do("holder", "lock", "read", "shared")
				other.do("reader", "lock", "read", "shared")
				waiting[0].waits(lease / 2)
				killed := time.Now()
				victim.proc.Kill()
				for _, c := range waiting {
					assert.NoError(t, c.wait(lease+5*time.Second).err)
				}
				time.Sleep(time.Until(killed.Add(lease + lease/2)))

				// When the living reader has left, of either side, the dead one keeps no writer out for longer than
				// that one's lease.
				third := at.start(t, dies)
				writer := third.begin("writer", "lock", "write", "shared")
				writer.waits(lease + lease/2) // the living reader renews
				other.do("reader", "unlock", "read", "shared")
				assert.NoError(t, writer.wait(2*lease).err)
			})
		}
	})
}

// Redisson 3.x renews the rwlock_timeout keys of only one of the read locks that a
// process holds, so those of the others end while their readers live. Only the lease of
// the whole lock tells that. A writer of relock must not take them for dead, also when
// readers of relock have prolonged that lease in between and left.
func TestWriterDoesNotPruneLiveReadersOfRedisson(t *testing.T) {
	const lease = 2 * time.Second
	eachPair(t, lease, func(t *testing.T, _ where, g, j *peer) {
		names := []string{"a", "b", "c"}
		var writers []*call
		for _, name := range names {
			j.do("reader", "lock", "read", name)
			g.do("reader", "lock", "read", name)
			writers = append(writers, g.begin(name, "lock", "write", name))
		}
		wait := func(leases float64) {
			t.Helper()
			writers[0].waits(time.Duration(leases * float64(lease)))
			for _, c := range writers {
				c.waits(0)
			}
		}
		wait(2.5)
		for _, name := range names {
			g.do("reader", "unlock", "read", name)
		}
		wait(2.5)
		for i, c := range writers {
			j.do("reader", "unlock", "read", names[i])
			c.must()
		}
	})
}
