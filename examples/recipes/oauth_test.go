package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
	"github.com/relock-go/relock/relocktest"
)

var errReused = errors.New("invalid_grant: the refresh token was used before")

// provider issues tokens for ten minutes. A refresh token is good for one use.
type provider struct {
	mu sync.Mutex // protects the following
	n  int        // tokens issued
}

func (p *provider) issue() apiToken {
	p.n++
	return apiToken{fmt.Sprint("access ", p.n), fmt.Sprint("refresh ", p.n), time.Now().Add(10 * time.Minute)}
}

func (p *provider) exchange(_ context.Context, refresh string) (apiToken, error) {
	time.Sleep(time.Second)
	p.mu.Lock()
	defer p.mu.Unlock()
	if refresh != fmt.Sprint("refresh ", p.n) {
		return apiToken{}, errReused
	}
	return p.issue(), nil
}

// login puts a token into Redis, and returns the API as n processes use it.
func login(t *testing.T, redis *relocktest.Redis, p *provider, n int) (processes []*api) {
	p.mu.Lock()
	defer p.mu.Unlock()
	client := redis.Client()
	set := client.B().Set().Key("api:token").Value(rueidis.JSON(p.issue())).Build()
	require.NoError(t, client.Do(background, set).Error())
	for range n {
		session := redis.Session()
		processes = append(processes, &api{session, redis.ClientOf(session), p.exchange})
	}
	return processes
}

// Callers of three processes always have a good token, of which each was fetched once. Ahead of the
// end of a token only the caller that fetches the next one waits.
func TestTokenIsRefreshedByOneForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(provider)
		processes := login(t, relocktest.New(t), p, 3)
		waited := 0
		call := func() {
			var mu sync.Mutex
			var all sync.WaitGroup
			for _, a := range processes {
				for range 10 {
					all.Go(func() {
						begun := time.Now()
						got, err := a.token(background)
						require.NoError(t, err)
						require.Greater(t, time.Until(got.Expires), 25*time.Second)
						mu.Lock()
						defer mu.Unlock()
						if time.Since(begun) > 0 {
							waited++
						}
					})
				}
			}
			all.Wait()
		}
		for range 30 { // minutes
			call()
			time.Sleep(time.Minute)
		}
		require.Equal(t, waited, p.n-1)
		require.Greater(t, p.n, 3)

		before := p.n
		time.Sleep(10 * time.Minute) // nobody asks, and the token ends
		call()
		require.Equal(t, before+1, p.n)
	})
}

// The caller that refreshes gives up, and Redis is away when the new token is to be written.
func TestFetchedTokenIsNotDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(provider)
		redis := relocktest.New(t)
		a := login(t, redis, p, 1)[0]
		time.Sleep(10 * time.Minute)
		ctx, cancel := context.WithTimeout(background, 500*time.Millisecond) // the exchange takes 1 s
		defer cancel()
		network := memredis.Of(redis, a.session)
		time.AfterFunc(700*time.Millisecond, func() { time.AfterFunc(2*time.Second, network.Refuse()) })
		got, err := a.token(ctx)
		require.NoError(t, err)
		require.Equal(t, "access 2", got.Access)
		stored, _, err := a.load(background)
		require.NoError(t, err)
		require.Equal(t, got.Refresh, stored.Refresh)
	})
}

// A caller loses the lock while it fetches a token, and does not learn of it. If somebody logs in
// meanwhile, that token stays; else the caller's is stored.
func TestLateTokenDoesNotOverwrite(t *testing.T) {
	for _, again := range []bool{false, true} {
		testLateToken(t, again)
	}
}

func testLateToken(t *testing.T, again bool) {
	synctest.Test(t, func(t *testing.T) {
		p := new(provider)
		redis := relocktest.New(t)
		late := login(t, redis, p, 1)[0]
		time.Sleep(10 * time.Minute)
		late.exchange = func(ctx context.Context, refresh string) (apiToken, error) {
			got, err := p.exchange(ctx, refresh)
			redis.Delete("api")
			if again {
				login(t, redis, p, 0)
			}
			return got, err
		}
		_, err := late.token(background)
		require.ErrorIs(t, err, relock.ErrLost)
		stored, _, err := late.load(background)
		require.NoError(t, err)
		require.Equal(t, map[bool]string{false: "access 2", true: "access 3"}[again], stored.Access)
	})
}
