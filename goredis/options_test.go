package goredis

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/redis/rueidis"
)

// The rules of redis.NewUniversalClient, with its default addresses.
func TestKindOfDeploymentIsThatOfGoRedis(t *testing.T) {
	two := []string{"a:1", "b:2"}
	for _, c := range []struct {
		o     redis.UniversalOptions
		kind  kind
		addrs []string
	}{
		{redis.UniversalOptions{}, single, []string{"127.0.0.1:6379"}},
		{redis.UniversalOptions{Addrs: []string{""}}, single, []string{"localhost:6379"}},
		{redis.UniversalOptions{Addrs: two[:1]}, single, two[:1]},
		{redis.UniversalOptions{Addrs: two[:1], ReadOnly: true, RouteRandomly: true}, single, two[:1]},
		{redis.UniversalOptions{Addrs: two}, cluster, two},
		{redis.UniversalOptions{Addrs: two, ReadOnly: true, RouteByLatency: true}, cluster, two},
		{redis.UniversalOptions{IsClusterMode: true}, cluster, []string{"127.0.0.1:6379"}},
		{redis.UniversalOptions{MasterName: "m"}, sentinel, []string{"127.0.0.1:26379"}},
		{redis.UniversalOptions{MasterName: "m", Addrs: two, IsClusterMode: true}, sentinel, two},
		{redis.UniversalOptions{MasterName: "m", Addrs: two, ReadOnly: true, RouteByLatency: true}, sentinel, two},
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
		if got != c.kind || !slices.Equal(r.InitAddress, c.addrs) {
			t.Errorf("%+v: kind %v at %v, want %v at %v", c.o, got, r.InitAddress, c.kind, c.addrs)
		}
		if want := map[bool]int{true: 3}[c.kind != cluster]; r.SelectDB != want {
			t.Errorf("%+v: database %d, want %d", c.o, r.SelectDB, want)
		}
		if !r.DisableCache {
			t.Errorf("%+v: with a cache", c.o)
		}
		clear(r.InitAddress)
		if !slices.Equal(c.o.Addrs, before) {
			t.Errorf("%+v: the caller's addresses were changed", c.o)
		}
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
		r := translate(t, redis.UniversalOptions{ReadTimeout: c.read, WriteTimeout: c.write})
		if r.ConnWriteTimeout != c.want {
			t.Errorf("read %v, write %v: %v, want %v", c.read, c.write, r.ConnWriteTimeout, c.want)
		}
	}
}

// Values for which go-redis has its defaults, or turns something off.
func TestNegativeValuesAreDefaults(t *testing.T) {
	r := translate(t, redis.UniversalOptions{IsClusterMode: true, DialTimeout: -1, ConnMaxIdleTime: -1, ConnMaxLifetime: -1,
		ConnMaxLifetimeJitter: time.Hour, MinIdleConns: -1, PoolSize: -1, MaxRedirects: -1})
	if r.Dialer.Timeout != 0 || r.BlockingPoolCleanup != 0 || r.ConnLifetime != 0 || r.BlockingPoolMinSize != 0 ||
		r.BlockingPoolSize != 0 || r.ClusterOption.MaxMovedRedirections != 0 {
		t.Errorf("%+v", r)
	}
	for range 100 {
		r := translate(t, redis.UniversalOptions{ConnMaxLifetime: time.Hour, ConnMaxLifetimeJitter: 2 * time.Hour})
		if r.ConnLifetime < time.Hour/2 || r.ConnLifetime > 3*time.Hour/2 {
			t.Errorf("with too much jitter: %v", r.ConnLifetime)
		}
	}
}

// go-redis sends no AUTH without a password; rueidis would.
func TestUserWithoutPasswordDoesNotAuthenticate(t *testing.T) {
	r := translate(t, redis.UniversalOptions{Username: "u", MasterName: "m", SentinelUsername: "s"})
	if r.Username != "" || r.Sentinel.Username != "" {
		t.Errorf("users %q and %q", r.Username, r.Sentinel.Username)
	}
	r = translate(t, redis.UniversalOptions{CredentialsProvider: func() (string, string) { return "u", "" }})
	if got, err := r.AuthCredentialsFn(rueidis.AuthCredentialsContext{}); err != nil || got != (rueidis.AuthCredentials{}) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestProviderThatFailsIsNamed(t *testing.T) {
	no := errors.New("no token")
	r := translate(t, redis.UniversalOptions{CredentialsProviderContext: func(ctx context.Context) (string, string, error) {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("the provider may take for ever")
		}
		return "", "", no
	}})
	if _, err := r.AuthCredentialsFn(rueidis.AuthCredentialsContext{}); !errors.Is(err, no) {
		t.Error(err)
	}
	_, err := NewClient(&redis.UniversalOptions{StreamingCredentialsProvider: failing{no}})
	if !errors.Is(err, no) || err.Error() != "goredis: NewClient: StreamingCredentialsProvider: no token" {
		t.Error(err)
	}
}

type failing struct{ err error }

func (f failing) Subscribe(auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	return nil, nil, f.err
}

// A dialer of go-redis makes the whole connection: TLS is its own affair.
func TestDialerOfTheOptionsIsAlone(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	var network, addr string
	r := translate(t, redis.UniversalOptions{
		Addrs: []string{"/run/redis.sock"}, TLSConfig: new(tls.Config), DialTimeout: time.Hour,
		Dialer: func(ctx context.Context, n, a string) (net.Conn, error) {
			network, addr = n, a
			if d, ok := ctx.Deadline(); !ok || time.Until(d) > time.Hour {
				t.Error("DialTimeout does not bound the dialer")
			}
			return here, nil
		},
	})
	conn, err := r.DialCtxFn(context.Background(), r.InitAddress[0], &r.Dialer, r.TLSConfig)
	if err != nil || conn != here || network != "unix" || addr != "/run/redis.sock" {
		t.Errorf("%v, %v, %s, %s", conn, err, network, addr)
	}
}
