package faults_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// wireKind tells what a command on the wire does to the lock: "acquire", "renew",
// "release", or something else, which is empty.
func wireKind(request []byte) string {
	for kind, sha := range map[string]string{"acquire": kit.AcquireSHA, "release": kit.ReleaseSHA, "renew": kit.RenewSHA} {
		if strings.Contains(string(request), "EVALSHA\r\n$40\r\n"+sha) {
			return kind
		}
	}
	return ""
}

// dropReply has the reply to the next command of a kind swallowed.
func dropReply(p *redistest.Proxy, k string) (landed <-chan struct{}) {
	return p.DropReplies(func(request []byte) bool { return wireKind(request) == k })
}

func TestExclusionAndHoldCountAreExactWhateverReplyIsLost(t *testing.T) {
	t.Parallel()
	const lease, workers = 2 * time.Second, 4
	for kind, of := range map[string]func(s *relock.Session) (kit.FencedLocker, relock.Locker){
		"Mutex":     func(s *relock.Session) (kit.FencedLocker, relock.Locker) { return s.Mutex("it"), nil },
		"FairMutex": func(s *relock.Session) (kit.FencedLocker, relock.Locker) { return s.FairMutex("it"), nil },
		"RWMutex": func(s *relock.Session) (kit.FencedLocker, relock.Locker) {
			rw := s.RWMutex("it")
			return rw, rw.RLocker()
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, p := kit.Proxied(t)
			client := kit.NewClient(t, s)
			var sessions []*relock.Session
			for i := range 2 {
				tenure := relock.WithTenure(time.Duration(i) * 10 * time.Millisecond)
				sessions = append(sessions, kit.NewSession(t, p, relock.WithLease(lease), tenure))
			}
			goesOn(t, sessions[0].Mutex("it"))

			var dropped, rounds, writes atomic.Int64
			stop := make(chan struct{})
			dropper := kit.Async(func() struct{} {
				for {
					landed := p.DropReplies(func(request []byte) bool {
						return bytes.Contains(request, []byte("EVALSHA")) && rand.N(10) == 0
					})
					select {
					case <-landed:
						dropped.Add(1)
					case <-stop:
						return struct{}{}
					}
				}
			})
			end := time.Now().Add(kit.Stress(t, 2*time.Second))
			tokens := make([][]int64, workers)
			err := kit.Together(workers, func(i int) error {
				write, read := of(sessions[i%2])
				for n := i; time.Now().Before(end); n++ {
					l := relock.Locker(write)
					if read != nil && n%4 > 0 {
						l = read
					}
					if err := l.Lock(kit.Background); err != nil {
						return err
					}
					rounds.Add(1)
					if l != read {
						writes.Add(1)
						tokens[i] = append(tokens[i], write.FencingToken())
						if err := kit.Bump(kit.Background, client, "counter"); err != nil {
							return err
						}
					}
					if err := kit.LostOrNil(l.Unlock(kit.Background)); err != nil {
						return err
					}
				}
				return nil
			})
			close(stop)
			kit.Receive(t, dropper, "the dropper")
			require.NoError(t, err)
			require.Equal(t, int(writes.Load()), kit.Counted(t, client, "counter"))
			require.Greater(t, dropped.Load(), int64(10))
			require.Greater(t, rounds.Load(), int64(20))
			all := slices.Concat(tokens...)
			slices.Sort(all)
			require.Len(t, slices.Compact(all), int(writes.Load()), "tokens are issued once")
			for _, mine := range tokens {
				require.True(t, slices.IsSorted(mine))
			}
			freed(t, s, "it")
			t.Logf("%d rounds, %d replies lost", rounds.Load(), dropped.Load())
		})
	}
}
