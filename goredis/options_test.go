package goredis

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The rules of redis.NewUniversalClient, with its default addresses.
func TestKindOfDeploymentIsThatOfGoRedis(t *testing.T) {
	two := []string{"a:1", "b:2"}
	for _, c := range []struct {
		o     options
		kind  kind
		addrs []string
	}{
		{options{}, single, []string{"127.0.0.1:6379"}},
		{options{Addrs: []string{""}}, single, []string{"localhost:6379"}},
		{options{Addrs: two[:1]}, single, two[:1]},
		{options{Addrs: two[:1], ReadOnly: true, RouteRandomly: true}, single, two[:1]},
		{options{Addrs: two, ReadOnly: true, RouteByLatency: true}, cluster, two},
		{options{IsClusterMode: true}, cluster, []string{"127.0.0.1:6379"}},
		{options{MasterName: "m"}, sentinel, []string{"127.0.0.1:26379"}},
		{options{MasterName: "m", Addrs: two, ReadOnly: true, RouteByLatency: true, IsClusterMode: true}, sentinel, two},
	} {
		c.o.DB = 3
		before := slices.Clone(c.o.Addrs)
		r := translate(t, c.o)
		got := cluster
		if r.ForceSingleClient {
			got = single
		} else if r.Sentinel.MasterSet != "" {
			got = sentinel
		}
		assert.Equal(t, c.kind, got, "%+v", c.o)
		assert.Equal(t, c.addrs, r.InitAddress, "%+v", c.o)
		assert.Equal(t, map[bool]int{true: 3}[c.kind != cluster], r.SelectDB, "%+v", c.o)
		assert.True(t, r.DisableCache)
		clear(r.InitAddress)
		assert.Equal(t, before, c.o.Addrs, "the caller's addresses were changed")
	}
}

func TestTimeoutIsTheLongerOfBoth(t *testing.T) {
	for _, c := range []struct{ read, write, want time.Duration }{
		{0, 0, 5 * time.Second},
		{3 * time.Second, 0, 3 * time.Second},
		{time.Second, 2 * time.Second, 2 * time.Second},
		{0, time.Second, 5 * time.Second},
		{0, 9 * time.Second, 9 * time.Second},
		{-1, 0, 0}, // the default of rueidis
		{-2, time.Second, 0},
		{time.Second, -1, 0},
	} {
		r := translate(t, options{ReadTimeout: c.read, WriteTimeout: c.write})
		assert.Equal(t, c.want, r.ConnWriteTimeout, "read %v, write %v", c.read, c.write)
	}
}

// Values for which go-redis has its defaults, or turns something off.
func TestNegativeValuesAreDefaults(t *testing.T) {
	r := translate(t, options{IsClusterMode: true, DialTimeout: -1, ConnMaxIdleTime: -1, ConnMaxLifetime: -1,
		ConnMaxLifetimeJitter: time.Hour, MinIdleConns: -1, PoolSize: -1, MaxRedirects: -1})
	assert.Equal(t, [3]time.Duration{}, [3]time.Duration{r.Dialer.Timeout, r.BlockingPoolCleanup, r.ConnLifetime})
	assert.Equal(t, [3]int{}, [3]int{r.BlockingPoolMinSize, r.BlockingPoolSize, r.ClusterOption.MaxMovedRedirections})
	for range 100 {
		r := translate(t, options{ConnMaxLifetime: time.Hour, ConnMaxLifetimeJitter: 2 * time.Hour})
		require.InDelta(t, time.Hour, r.ConnLifetime, float64(time.Hour/2), "with too much jitter")
	}
}

// go-redis sends no AUTH without a password; rueidis would.
func TestUserWithoutPasswordDoesNotAuthenticate(t *testing.T) {
	r := translate(t, options{Username: "u", MasterName: "m", SentinelUsername: "s"})
	assert.Empty(t, r.Username+r.Sentinel.Username)
	r = translate(t, options{CredentialsProvider: func() (string, string) { return "u", "" }})
	got, err := r.AuthCredentialsFn(rueidis.AuthCredentialsContext{})
	assert.NoError(t, err)
	assert.Zero(t, got)
}

func TestProviderThatFailsIsNamed(t *testing.T) {
	no := errors.New("no token")
	r := translate(t, options{CredentialsProviderContext: func(ctx context.Context) (string, string, error) {
		_, ok := ctx.Deadline()
		assert.True(t, ok, "the provider may take for ever")
		return "", "", no
	}})
	_, err := r.AuthCredentialsFn(rueidis.AuthCredentialsContext{})
	assert.ErrorIs(t, err, no)
	_, err = NewClient(&options{StreamingCredentialsProvider: &provider{err: no}})
	assert.ErrorIs(t, err, no)
	assert.EqualError(t, err, "goredis: NewClient: StreamingCredentialsProvider: no token")
}

// A dialer of go-redis makes the whole connection: TLS is its own affair.
func TestDialerOfTheOptionsIsAlone(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	r := translate(t, options{
		Addrs: []string{"/run/redis.sock"}, TLSConfig: new(tls.Config), DialTimeout: time.Hour,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			assert.Equal(t, "unix /run/redis.sock", network+" "+addr)
			deadline, _ := ctx.Deadline()
			assert.WithinRange(t, deadline, time.Now(), time.Now().Add(time.Hour), "by DialTimeout")
			return here, nil
		},
	})
	conn, err := r.DialCtxFn(context.Background(), r.InitAddress[0], &r.Dialer, r.TLSConfig)
	assert.NoError(t, err)
	assert.Equal(t, here, conn)
}
