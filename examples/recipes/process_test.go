package recipes

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
	"github.com/relock-go/relock/relocktest"
)

// away returns a server of Redis that refuses connections, and how a client finds it.
func away(t *testing.T) (server *memredis.Server, allow func(), option rueidis.ClientOption) {
	server, err := memredis.New()
	require.NoError(t, err)
	t.Cleanup(server.Close)
	network := server.Process()
	return server, network.Refuse(), rueidis.ClientOption{
		InitAddress: []string{memredis.Addr}, ForceSingleClient: true, DisableCache: true,
		DialCtxFn: func(ctx context.Context, _ string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return network.Dial(ctx, d.Timeout)
		},
	}
}

// A session is there at once, and its calls go on when Redis is.
func TestStartDoesNotWaitForRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, allow, option := away(t)
		begun := time.Now()
		client, session, err := start(background, option)
		require.NoError(t, err)
		defer client.Close()
		defer func() { require.NoError(t, session.Close(background)) }()
		require.Zero(t, time.Since(begun))
		_, err = session.Mutex("a").TryLock(background)
		require.ErrorIs(t, err, relock.ErrUnavailable)

		time.AfterFunc(time.Minute, allow)
		require.NoError(t, relock.Do(background, session.Mutex("a"), func(context.Context) error { return nil }))
		require.GreaterOrEqual(t, time.Since(begun), time.Minute)

		_, _, err = start(background, option, relock.WithLease(1))
		require.ErrorIs(t, err, relock.ErrOption)
		_, _, err = start(background, rueidis.ClientOption{})
		require.ErrorIs(t, err, rueidis.ErrNoAddr)
	})
}

// A server without replicas: either way to start says so, and Do does not wait for them.
func TestStartTellsThatReplicasAreMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, allow, option := away(t)
		allow()
		replicas := relock.WithReplicas(1, 100*time.Millisecond)
		client, session, err := start(background, option, replicas)
		require.NoError(t, err)
		defer client.Close()
		defer func() { require.NoError(t, session.Close(background)) }()
		begun := time.Now()
		for range 3 {
			err = relock.Do(background, session.Mutex("a"), func(context.Context) error { return nil })
			require.ErrorIs(t, err, relock.ErrReplicas)
		}
		require.Less(t, time.Since(begun), time.Second)

		ctx, cancel := context.WithTimeout(background, time.Minute)
		defer cancel()
		_, err = relock.NewSession(background, client, replicas)
		require.ErrorIs(t, err, relock.ErrReplicas)
		_, _, err = connect(ctx, option, replicas) // which tries that again and again
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// The client cannot connect at first, then connects to a Redis that loads its data.
func TestConnectWaitsForRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, allow, option := away(t)
		start := time.Now()
		time.AfterFunc(time.Minute, allow)
		time.AfterFunc(2*time.Minute, server.FailScripts("LOADING Redis is loading the dataset in memory"))
		client, session, err := connect(background, option)
		require.NoError(t, err)
		defer client.Close()
		defer func() { require.NoError(t, session.Close(background)) }()
		require.GreaterOrEqual(t, time.Since(start), 2*time.Minute)
		require.LessOrEqual(t, time.Since(start), 3*time.Minute)
		ok, err := session.Mutex("a").TryLock(background)
		require.NoError(t, err)
		require.True(t, ok)

		_, _, err = connect(background, option, relock.WithLease(1))
		require.ErrorIs(t, err, relock.ErrOption)

		_, _, option = away(t)
		ctx, cancel := context.WithTimeout(background, time.Minute)
		defer cancel()
		_, _, err = connect(ctx, option)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// A process has died, and the next one waits for the rest of the lease, and no longer.
func TestResumeAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := relocktest.New(t)
		dead := redis.Session()
		_, err := resume(background, dead, "partition:7")
		require.NoError(t, err)
		time.Sleep(time.Minute)
		memredis.Of(redis, dead).Vanish(true)

		begun := time.Now()
		hold, err := resume(background, redis.Session(relock.WithLabel("shop@b:2")), "partition:7")
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(begun), 10*time.Second+10*time.Millisecond)

		begun = time.Now()
		_, err = resume(background, redis.Session(), "partition:7") // while that one lives
		require.ErrorIs(t, err, relock.ErrTaken)
		require.ErrorContains(t, err, "shop@b:2 is alive")
		require.Equal(t, 15*time.Second, time.Since(begun).Truncate(time.Second))
		require.NoError(t, hold.Err())
		require.NoError(t, hold.Unlock(background))
	})
}

// At SIGTERM a request and the work are under the lock. Both end, with their locks.
func TestShutdownEndsRequestsWorkAndLocks(t *testing.T) {
	redis := relocktest.New(t)
	session := redis.Session()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	locked, terminated := make(chan struct{}), make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if err := relock.Do(r.Context(), session.Mutex("request"), func(context.Context) error {
			close(locked)
			<-terminated
			return nil
		}); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	served, answered := make(chan error, 1), make(chan int, 1)
	go func() {
		served <- serve(l, &http.Server{Handler: mux}, session, func(ctx context.Context) {
			_ = relock.Do(ctx, session.Mutex("work"), func(ctx context.Context) error {
				<-locked
				if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
					return err
				}
				<-ctx.Done()
				close(terminated)
				return nil
			})
			for { // it does not look at its context, and ends as the session grants nothing new
				err := relock.Do(background, session.Mutex("more work"), func(context.Context) error { return nil })
				if errors.Is(err, relock.ErrClosed) {
					return
				}
			}
		})
	}()
	go func() {
		transport := new(http.Transport)
		defer transport.CloseIdleConnections()
		response, err := (&http.Client{Transport: transport}).Get("http://" + l.Addr().String())
		if err != nil {
			answered <- 0
			return
		}
		_ = response.Body.Close()
		answered <- response.StatusCode
	}()
	require.NoError(t, <-served)
	require.Equal(t, http.StatusOK, <-answered)
	other := redis.Session()
	for _, name := range []string{"request", "work", "more work"} {
		state, err := other.Inspect(background, name)
		require.NoError(t, err)
		require.Equal(t, relock.Unlocked, state.Mode, name)
	}
}
