package goredis

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
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
		refresh := map[bool]time.Duration{true: topologyInterval}
		assert.Equal(t, refresh[got == sentinel], r.Sentinel.TopologyRefreshInterval, "%+v", c.o)
		assert.Equal(t, refresh[got == cluster], r.ClusterOption.ShardsRefreshInterval, "%+v", c.o)
		clear(r.InitAddress)
		assert.Equal(t, before, c.o.Addrs, "the caller's addresses were changed")
	}
}

func TestTimeoutIsTheLongerOfBoth(t *testing.T) {
	for _, c := range []struct{ read, write, want time.Duration }{
		{0, 0, 5 * time.Second},
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

type (
	options = redis.UniversalOptions
	result  = rueidis.ClientOption
)

// What becomes of each field of redis.UniversalOptions. TestEveryFieldHasItsFate fails when
// go-redis adds one that is in none of the tables.

// carried holds, for each field that is carried over, options with it and a test of the outcome.
var carried = map[string]struct {
	with options
	got  func(result) bool
}{
	"Addrs": {options{Addrs: []string{"a:1", "b:2"}}, func(r result) bool {
		return slices.Equal(r.InitAddress, []string{"a:1", "b:2"}) && !r.ForceSingleClient
	}},
	"ClientName": {options{ClientName: "n", MasterName: "m"},
		func(r result) bool { return r.ClientName == "n" && r.Sentinel.ClientName == "n" }},
	"DB": {options{DB: 3}, func(r result) bool { return r.SelectDB == 3 }},
	"Dialer": {options{Dialer: refuseToDial}, func(r result) bool {
		_, err := r.DialCtxFn(context.Background(), "a:1", &r.Dialer, r.TLSConfig)
		return err == context.Canceled
	}},
	"Protocol":            {options{Protocol: 2}, func(r result) bool { return r.AlwaysRESP2 }},
	"Username":            {options{Username: "u", Password: "p"}, func(r result) bool { return r.Username == "u" }},
	"Password":            {options{Password: "p"}, func(r result) bool { return r.Password == "p" }},
	"CredentialsProvider": {options{CredentialsProvider: func() (string, string) { return "u", "p" }}, logsInAsUP},
	"CredentialsProviderContext": {options{
		CredentialsProvider:        func() (string, string) { return "not", "asked" },
		CredentialsProviderContext: func(context.Context) (string, string, error) { return "u", "p", nil },
	}, logsInAsUP},
	"StreamingCredentialsProvider": {options{
		CredentialsProvider:          func() (string, string) { return "not", "asked" },
		StreamingCredentialsProvider: &provider{latest: auth.NewBasicCredentials("u", "p")},
	}, logsInAsUP},
	"SentinelUsername": {options{MasterName: "m", SentinelUsername: "u", SentinelPassword: "p"},
		func(r result) bool { return r.Sentinel.Username == "u" && r.Username == "" }},
	"SentinelPassword": {options{MasterName: "m", SentinelPassword: "p"},
		func(r result) bool { return r.Sentinel.Password == "p" && r.Password == "" }},
	"DialTimeout": {options{DialTimeout: time.Minute, MasterName: "m"}, func(r result) bool {
		return r.Dialer.Timeout == time.Minute && r.Sentinel.Dialer.Timeout == time.Minute
	}},
	"ReadTimeout": {options{ReadTimeout: 3 * time.Second},
		func(r result) bool { return r.ConnWriteTimeout == 3*time.Second }},
	"WriteTimeout": {options{ReadTimeout: 3 * time.Second, WriteTimeout: 4 * time.Second},
		func(r result) bool { return r.ConnWriteTimeout == 4*time.Second }},
	"ReadBufferSize": {options{ReadBufferSize: 1 << 16}, func(r result) bool { return r.ReadBufferEachConn == 1<<16 }},
	"WriteBufferSize": {options{WriteBufferSize: 1 << 16},
		func(r result) bool { return r.WriteBufferEachConn == 1<<16 }},
	"PoolSize":       {options{PoolSize: 8}, func(r result) bool { return r.BlockingPoolSize == 10 }},
	"MaxActiveConns": {options{PoolSize: 8, MaxActiveConns: 5}, func(r result) bool { return r.BlockingPoolSize == 7 }},
	"MinIdleConns":   {options{MinIdleConns: 4}, func(r result) bool { return r.BlockingPoolMinSize == 4 }},
	"ConnMaxIdleTime": {options{ConnMaxIdleTime: time.Hour},
		func(r result) bool { return r.BlockingPoolCleanup == time.Hour }},
	"ConnMaxLifetime": {options{ConnMaxLifetime: time.Hour}, func(r result) bool { return r.ConnLifetime == time.Hour }},
	"ConnMaxLifetimeJitter": {options{ConnMaxLifetime: time.Hour, ConnMaxLifetimeJitter: time.Minute},
		func(r result) bool {
			off := (r.ConnLifetime - time.Hour).Abs()
			return off > 0 && off <= time.Minute
		}},
	"TLSConfig": {options{TLSConfig: trusted, MasterName: "m"},
		func(r result) bool { return r.TLSConfig == trusted && r.Sentinel.TLSConfig == trusted }},
	"MaxRedirects": {options{IsClusterMode: true, MaxRedirects: 9},
		func(r result) bool { return r.ClusterOption.MaxMovedRedirections == 9 }},
	"MasterName": {options{MasterName: "m"},
		func(r result) bool { return r.Sentinel.MasterSet == "m" && r.InitAddress[0] == "127.0.0.1:26379" }},
	//lint:ignore SA1019 go-redis still minds it
	"DisableIndentity": {options{DisableIndentity: true}, anonymous},
	"DisableIdentity":  {options{DisableIdentity: true}, anonymous},
	"IdentitySuffix": {options{IdentitySuffix: "x"},
		func(r result) bool { return r.ClientSetInfo[0] == "rueidis(x)" }},
	"IsClusterMode": {options{IsClusterMode: true}, func(r result) bool { return !r.ForceSingleClient }},
}

// refusedWith holds, for each field that is refused, options with it.
var refusedWith = map[string]options{
	"OnConnect": {OnConnect: func(context.Context, *redis.Conn) error { return nil }},
	"Protocol":  {Protocol: 4}, // 2 and 3 are carried over
	"ReadOnly":  {ReadOnly: true, MasterName: "m"},
}

// ignored holds the fields that mean nothing to locks, by the reason.
var ignored = map[string][]string{
	"relock repeats what may be repeated, until the caller's context ends": {
		"MaxRetries", "MinRetryBackoff", "MaxRetryBackoff", "DialerRetries", "DialerRetryTimeout",
	},
	"relock always keeps to the context": {"ContextTimeoutEnabled"},
	"one connection, on which everything is pipelined": {
		"PipelineReadBufferSize", "PipelineWriteBufferSize", "PipelinePoolSize", "AutoPipelineOptions",
	},
	"the pool is only for subscriptions and WAIT": {"PoolFIFO", "MaxConcurrentDials", "PoolTimeout", "MaxIdleConns"},
	"locks are read and written at the primary only": {
		"RouteByLatency", "RouteByLatencyTolerance", "RouteRandomly", "FailingTimeoutSeconds",
	},
	"go-redis ignores it": {"UnstableResp3"},
	"no server pushes anything to these connections but the messages of locks": {"PushNotificationProcessor"},
	"after maintenance the client connects again, and holds outlive that":      {"MaintNotificationsConfig"},
	"locks are never read from a cache": {
		"ClientSideCacheConfig", "ClientSideCache", "ClientSideCacheStrategy", "ClientSideCacheRefreshOnInvalidate",
		"ClientSideCacheCoalesceMisses", "ClientSideCacheInvalidationBatchWindow",
	},
}

var trusted = new(tls.Config)

func refuseToDial(context.Context, string, string) (net.Conn, error) { return nil, context.Canceled }

func anonymous(r result) bool {
	return r.ClientSetInfo != nil && len(r.ClientSetInfo) == 0
}

func logsInAsUP(r result) bool {
	got, err := r.AuthCredentialsFn(rueidis.AuthCredentialsContext{})
	return err == nil && got == rueidis.AuthCredentials{Username: "u", Password: "p"}
}

// provider is a StreamingCredentialsProvider.
type provider struct {
	latest auth.Credentials
	err    error
}

func (p *provider) Subscribe(auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	return p.latest, func() error { return nil }, p.err
}

// translate returns what NewClient would pass to rueidis.
func translate(t *testing.T, o options) rueidis.ClientOption {
	t.Helper()
	require.NoError(t, refused(&o))
	l, end, err := loginOf(&o)
	require.NoError(t, err)
	t.Cleanup(end)
	return clientOption(&o, l)
}

func TestEveryFieldHasItsFate(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	fates := make(map[string]bool)
	for name := range carried {
		fates[name] = true
	}
	for name := range refusedWith {
		fates[name] = true
	}
	for _, names := range ignored {
		for _, name := range names {
			require.NotContains(t, fates, name, "it is ignored, and not")
			fates[name] = true
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[options]()) {
		assert.Contains(t, fates, f.Name, "it is neither carried over, nor refused, nor ignored for a reason")
		assert.Contains(t, string(readme), "`"+f.Name+"`", "README.md does not say what becomes of it")
		delete(fates, f.Name)
	}
	assert.Empty(t, fates, "go-redis has no such fields")
}

func TestCarriedFieldsArrive(t *testing.T) {
	for name, c := range carried {
		r := translate(t, c.with)
		assert.True(t, c.got(r), "%s is lost: %+v", name, r)
	}
}

func TestRefusedFieldsAreNamed(t *testing.T) {
	for name, o := range refusedWith {
		client, err := NewClient(&o)
		assert.ErrorContains(t, err, "goredis: NewClient: "+name)
		assert.Nil(t, client)
	}
	_, err := NewClient(&options{OnConnect: refusedWith["OnConnect"].OnConnect, Protocol: 4})
	assert.Regexp(t, "^.*OnConnect.*Protocol 4.*$", err.Error(), "on one line")
	_, err = NewClient(nil)
	assert.ErrorContains(t, err, "nil")
}
