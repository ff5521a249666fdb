package locks_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

// An oldPeer is a process with the protocol before this one: it sends the scripts in testdata/v0.1, as
// they were sent.
type oldPeer struct {
	t       testing.TB
	client  rueidis.Client
	session string
	n       atomic.Int64
	scripts map[string]string
}

func newOldPeer(t testing.TB, client rueidis.Client, i int) *oldPeer {
	t.Helper()
	p := &oldPeer{t: t, client: client, session: fmt.Sprintf("%08x-0000-8000-8000-000000000000", i), scripts: make(map[string]string)}
	for _, name := range []string{"acquire", "release", "look"} {
		text, err := os.ReadFile("testdata/v0.1/" + name + ".lua")
		require.NoError(t, err)
		p.scripts[name] = string(text)
	}
	return p
}

func (p *oldPeer) run(name string, keys []string, args ...string) rueidis.RedisResult {
	return p.client.Do(kit.Background, p.client.B().Eval().Script(p.scripts[name]).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
}

// lock queues, and polls until it has the lock. It returns the hold id and the token.
func (p *oldPeer) lock(ctx context.Context) (id string, token int64) {
	keys := []string{"lock", "relock_fence:{lock}", "relock_queue:{lock}"}
	for ctx.Err() == nil {
		id = p.session + ":" + strconv.FormatInt(p.n.Add(1), 10)
		token, err := p.run("acquire", keys, id, "10000", "1", "5000", "").AsInt64()
		for polls := 0; err == nil && token <= 0 && polls < 100 && ctx.Err() == nil; polls++ {
			time.Sleep(2 * time.Millisecond)
			var all []int64
			if all, err = p.run("look", keys, id, "10000", "5000", "").AsIntSlice(); err == nil {
				token = all[0]
			}
			if token == -1<<52 { // its place is gone
				break
			}
		}
		require.NoError(p.t, err)
		if token > 0 {
			return id, token
		}
		p.unlock(id)
	}
	return "", 0
}

func (p *oldPeer) unlock(id string) {
	err := p.run("release", []string{"lock", "relock_queue:{lock}", "relock_fence:{lock}"}, id, "redisson_lock__channel:{lock}", "5000", "").Error()
	require.NoError(p.t, err)
}

// Beside processes with 0.1.0 exclusion and growing tokens hold. Those do not listen where this version
// looks for waiters, so they get the lock only when it is free and nobody queues: everybody pauses.
func TestProcessesWithTheOldProtocolAreExcluded(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := kit.NewClient(t, server)
	ctx, stop := context.WithTimeout(kit.Background, time.Minute)
	defer stop()
	var wg sync.WaitGroup
	var last, total atomic.Int64
	turns := make([]atomic.Int64, 6)
	section := func(token int64, i int) {
		require.Greater(t, token, last.Swap(token), "the token of process %d", i)
		n, err := client.Do(kit.Background, client.B().Get().Key("counter").Build()).AsInt64()
		if !rueidis.IsRedisNil(err) {
			require.NoError(t, err)
		}
		time.Sleep(time.Millisecond)
		require.NoError(t, client.Do(kit.Background, client.B().Set().Key("counter").Value(strconv.FormatInt(n+1, 10)).Build()).Error())
		total.Add(1)
		turns[i].Add(1)
	}
	pause := func() { time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond) }
	for i := range 3 {
		p := newOldPeer(t, client, i+1)
		wg.Go(func() {
			for {
				id, token := p.lock(ctx)
				if id == "" {
					return
				}
				section(token, i)
				p.unlock(id)
				pause()
			}
		})
		s := kit.NewSession(t, server)
		wg.Go(func() {
			for {
				h, err := s.Mutex("lock").Acquire(ctx)
				if err != nil {
					return
				}
				section(h.Token(), 3+i)
				require.NoError(t, h.Unlock(kit.Background))
				pause()
			}
		})
	}
	require.Eventually(t, func() bool {
		for i := range turns {
			if turns[i].Load() < 20 {
				return false
			}
		}
		return true
	}, time.Minute, 10*time.Millisecond, "each process has turns")
	stop()
	wg.Wait()
	n, err := client.Do(kit.Background, client.B().Get().Key("counter").Build()).AsInt64()
	require.NoError(t, err)
	require.Equal(t, total.Load(), n)
}
