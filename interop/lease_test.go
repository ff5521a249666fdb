package interop_test

import (
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
)

// Neither side's watchdog prunes or prolongs what is the other's. RELOCK_INTEROP_LEASE
// sets the lease of both, which is short by default.
func TestWatchdogsOfBothSidesCoexist(t *testing.T) {
	t.Parallel()
	eachRedisson(t, func(t *testing.T, version string) {
		t.Parallel()
		lease := setting(t, "RELOCK_INTEROP_LEASE", 3*time.Second)
		at := single(redistest.Start(t), lease)
		g, j := at.start(t, ""), at.start(t, version)
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
		if !strings.HasPrefix(version, "3.") {
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

		// A reader that is not renewed is gone, although the other side's reader is.
		for lock, holder := range map[string]*peer{"Goread": g, "Javaread": j} {
			fields := strings.Fields(g.do("asks", "inspect", "read", lock))
			want := holder.id + ":"
			if holder == j {
				want = j.do("holder", "thread")
			}
			live := 0
			for _, f := range fields[2:] {
				if strings.HasPrefix(f, want) {
					live++
				}
			}
			if fields[0] != "shared" || live != 1 {
				t.Errorf("%s: %v; want the hold of %s", lock, fields, want)
			}
			holder.do("holder", "unlock", "read", lock)
			for _, p := range []*peer{g, j} {
				if !p.gets("then", "write", lock) {
					t.Errorf("%v: the lock %s is not free after its last reader that lives has left", p, lock)
					continue
				}
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
		if g.gets("third", "write", "shared") || j.gets("third", "write", "shared") {
			t.Error("a writer got in beside readers of both sides")
		}
		g.do("holder", "unlock", "read", "shared")
		if g.gets("third", "write", "shared") || j.gets("third", "write", "shared") {
			t.Error("a writer got in beside a reader of Redisson")
		}
		j.do("holder", "unlock", "read", "shared")
		if !g.gets("third", "write", "shared") {
			t.Error("the last reader has left, and the lock is not free")
		}
	})
}

// A killed process frees its share within its lease.
func TestKilledHolderOfEitherSideFreesItsLocks(t *testing.T) {
	t.Parallel()
	eachRedisson(t, func(t *testing.T, version string) {
		for _, dies := range []string{version, ""} {
			lives := version
			name := "Go"
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
					wanted := rival(kind)
					waiting = append(waiting, other.begin(kind, "lock", wanted, kind))
				}
				// Another reader beside it, which lives on, and one in a mixed company.
				victim.do("holder", "lock", "read", "shared")
				other.do("reader", "lock", "read", "shared")
				waiting[0].waits(lease / 2)
				killed := time.Now()
				victim.proc.Kill()
				for _, c := range waiting {
					if a := c.wait(lease + 5*time.Second); a.err != nil {
						t.Error(a.err)
					}
				}
				time.Sleep(time.Until(killed.Add(lease + lease/2)))

				// The dead reader keeps no writer out when the living one has left, of
				// either side.
				third := at.start(t, dies)
				before := time.Now()
				writer := third.begin("writer", "lock", "write", "shared")
				writer.waits(lease + lease/2) // the living reader renews
				other.do("reader", "unlock", "read", "shared")
				most := lease / 2
				if strings.HasPrefix(lives, "3.") {
					most = 2 * lease // Redisson 3.x renews the dead reader's share with its own
				}
				a := writer.wait(most)
				if a.err != nil {
					t.Errorf("%v after %v", a.err, time.Since(before))
				}
			})
		}
	})
}

// Redisson 3.x renews the rwlock_timeout keys of only one of the read locks that a
// process holds, so those of the others end while their readers live. Only the lease of
// the whole lock tells that. A writer of relock must not take them for dead, also when
// readers of relock have prolonged that lease in between and left.
func TestWriterDoesNotPruneLiveReadersOfRedisson(t *testing.T) {
	t.Parallel()
	eachRedisson(t, func(t *testing.T, version string) {
		t.Parallel()
		const lease = 2 * time.Second
		at := single(redistest.Start(t), lease)
		g, j := at.start(t, ""), at.start(t, version)
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
