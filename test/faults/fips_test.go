package faults_test

import (
	"fmt"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func init() { kit.Roles["fips"] = fipsRole }

// fipsRole takes locks of each kind at an address.
func fipsRole(args []string) {
	s, client := kit.ChildSession(args[0])
	defer client.Close()
	for _, l := range []relock.Locker{s.Mutex("a"), s.FairMutex("b"), s.RWMutex("c"), s.RWMutex("d").RLocker()} {
		for range 10 {
			kit.ChildCheck(l.Lock(kit.Background))
			kit.ChildCheck(l.Unlock(kit.Background))
		}
	}
	kit.ChildCheck(s.Close(kit.Background))
	fmt.Println("locked")
}

// A process whose cryptography must be that of FIPS 140 may not even compute the SHA-1
// that EVALSHA takes. Its calls go by EVALSHA all the same.
func TestLocksAreTakenInFIPS140OnlyMode(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	child := redistest.ChildIn(t, []string{"GODEBUG=fips140=only"}, "fips", server.Addr())
	_, err := child.Expect("locked", 4*kit.Soon)
	require.NoError(t, err)
	require.NoError(t, child.Wait())
	calls := server.CommandStats()
	require.Greater(t, calls["evalsha"], 2*calls["eval"])
}
