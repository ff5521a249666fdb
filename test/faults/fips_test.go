package faults_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func init() { kit.Roles["fips"] = fipsRole }

// fipsRole takes locks of each kind at an address.
func fipsRole(args []string) {
	err := func() error {
		ctx, cancel := context.WithTimeout(kit.Background, 2*kit.Soon)
		defer cancel()
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: args, ForceSingleClient: true, DisableCache: true})
		if err != nil {
			return err
		}
		defer client.Close()
		s, err := relock.NewSession(ctx, client)
		if err != nil {
			return err
		}
		for _, l := range []relock.Locker{s.Mutex("a"), s.FairMutex("b"), s.RWMutex("c"), s.RWMutex("d").RLocker()} {
			for range 10 {
				if err := l.Lock(ctx); err != nil {
					return err
				}
				if err := l.Unlock(ctx); err != nil {
					return err
				}
			}
		}
		return s.Close(ctx)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
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
