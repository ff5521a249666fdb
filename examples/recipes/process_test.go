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

// The client cannot connect at first, then connects to a Redis that loads its data.
func TestStartWaitsForRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := memredis.New()
		require.NoError(t, err)
		t.Cleanup(server.Close)
		network := server.Process()
		option := rueidis.ClientOption{
			InitAddress: []string{memredis.Addr}, ForceSingleClient: true, DisableCache: true,
			DialCtxFn: func(ctx context.Context, _ string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return network.Dial(ctx, d.Timeout)
			},
		}
		start := time.Now()
		time.AfterFunc(time.Minute, network.Refuse())
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

		network.Refuse()
		ctx, cancel := context.WithTimeout(background, time.Minute)
		defer cancel()
		_, _, err = connect(ctx, option)
		require.ErrorIs(t, err, context.DeadlineExceeded)
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
