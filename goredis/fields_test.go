package goredis

import (
	"context"
	"crypto/tls"
	"maps"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/redis/rueidis"
)

// What becomes of each field of redis.UniversalOptions. TestEveryFieldHasItsFate fails when
// go-redis adds one that is in none of the tables.

// carried holds, for each field that is carried over, options with it and a test of the outcome.
var carried = map[string]struct {
	with redis.UniversalOptions
	got  func(rueidis.ClientOption) bool
}{
	"Addrs": {redis.UniversalOptions{Addrs: []string{"a:1", "b:2"}}, func(r rueidis.ClientOption) bool {
		return slices.Equal(r.InitAddress, []string{"a:1", "b:2"}) && !r.ForceSingleClient
	}},
	"ClientName": {redis.UniversalOptions{ClientName: "n", MasterName: "m"}, func(r rueidis.ClientOption) bool {
		return r.ClientName == "n" && r.Sentinel.ClientName == "n"
	}},
	"DB": {redis.UniversalOptions{DB: 3}, func(r rueidis.ClientOption) bool { return r.SelectDB == 3 }},
	"Dialer": {redis.UniversalOptions{Dialer: refuseToDial}, func(r rueidis.ClientOption) bool {
		_, err := r.DialCtxFn(context.Background(), "a:1", &r.Dialer, r.TLSConfig)
		return err == context.Canceled
	}},
	"Protocol":            {redis.UniversalOptions{Protocol: 2}, func(r rueidis.ClientOption) bool { return r.AlwaysRESP2 }},
	"Username":            {redis.UniversalOptions{Username: "u", Password: "p"}, func(r rueidis.ClientOption) bool { return r.Username == "u" }},
	"Password":            {redis.UniversalOptions{Password: "p"}, func(r rueidis.ClientOption) bool { return r.Password == "p" }},
	"CredentialsProvider": {redis.UniversalOptions{CredentialsProvider: func() (string, string) { return "u", "p" }}, logsInAsUP},
	"CredentialsProviderContext": {redis.UniversalOptions{
		CredentialsProvider:        func() (string, string) { return "not", "asked" },
		CredentialsProviderContext: func(context.Context) (string, string, error) { return "u", "p", nil },
	}, logsInAsUP},
	"StreamingCredentialsProvider": {redis.UniversalOptions{
		CredentialsProvider:          func() (string, string) { return "not", "asked" },
		StreamingCredentialsProvider: &provider{latest: auth.NewBasicCredentials("u", "p")},
	}, logsInAsUP},
	"SentinelUsername": {redis.UniversalOptions{MasterName: "m", SentinelUsername: "u", SentinelPassword: "p"},
		func(r rueidis.ClientOption) bool { return r.Sentinel.Username == "u" && r.Username == "" }},
	"SentinelPassword": {redis.UniversalOptions{MasterName: "m", SentinelPassword: "p"},
		func(r rueidis.ClientOption) bool { return r.Sentinel.Password == "p" && r.Password == "" }},
	"DialTimeout": {redis.UniversalOptions{DialTimeout: time.Minute, MasterName: "m"}, func(r rueidis.ClientOption) bool {
		return r.Dialer.Timeout == time.Minute && r.Sentinel.Dialer.Timeout == time.Minute
	}},
	"ReadTimeout": {redis.UniversalOptions{ReadTimeout: 3 * time.Second},
		func(r rueidis.ClientOption) bool { return r.ConnWriteTimeout == 3*time.Second }},
	"WriteTimeout": {redis.UniversalOptions{ReadTimeout: 3 * time.Second, WriteTimeout: 4 * time.Second},
		func(r rueidis.ClientOption) bool { return r.ConnWriteTimeout == 4*time.Second }},
	"ReadBufferSize":  {redis.UniversalOptions{ReadBufferSize: 1 << 16}, func(r rueidis.ClientOption) bool { return r.ReadBufferEachConn == 1<<16 }},
	"WriteBufferSize": {redis.UniversalOptions{WriteBufferSize: 1 << 16}, func(r rueidis.ClientOption) bool { return r.WriteBufferEachConn == 1<<16 }},
	"PoolSize":        {redis.UniversalOptions{PoolSize: 8}, func(r rueidis.ClientOption) bool { return r.BlockingPoolSize == 10 }},
	"MaxActiveConns": {redis.UniversalOptions{PoolSize: 8, MaxActiveConns: 5},
		func(r rueidis.ClientOption) bool { return r.BlockingPoolSize == 7 }},
	"MinIdleConns":    {redis.UniversalOptions{MinIdleConns: 4}, func(r rueidis.ClientOption) bool { return r.BlockingPoolMinSize == 4 }},
	"ConnMaxIdleTime": {redis.UniversalOptions{ConnMaxIdleTime: time.Hour}, func(r rueidis.ClientOption) bool { return r.BlockingPoolCleanup == time.Hour }},
	"ConnMaxLifetime": {redis.UniversalOptions{ConnMaxLifetime: time.Hour}, func(r rueidis.ClientOption) bool { return r.ConnLifetime == time.Hour }},
	"ConnMaxLifetimeJitter": {redis.UniversalOptions{ConnMaxLifetime: time.Hour, ConnMaxLifetimeJitter: time.Minute},
		func(r rueidis.ClientOption) bool {
			off := (r.ConnLifetime - time.Hour).Abs()
			return off > 0 && off <= time.Minute
		}},
	"TLSConfig": {redis.UniversalOptions{TLSConfig: trusted, MasterName: "m"}, func(r rueidis.ClientOption) bool {
		return r.TLSConfig == trusted && r.Sentinel.TLSConfig == trusted
	}},
	"MaxRedirects": {redis.UniversalOptions{IsClusterMode: true, MaxRedirects: 9},
		func(r rueidis.ClientOption) bool { return r.ClusterOption.MaxMovedRedirections == 9 }},
	"MasterName": {redis.UniversalOptions{MasterName: "m"}, func(r rueidis.ClientOption) bool {
		return r.Sentinel.MasterSet == "m" && r.InitAddress[0] == "127.0.0.1:26379"
	}},
	//lint:ignore SA1019 go-redis still minds it
	"DisableIndentity": {redis.UniversalOptions{DisableIndentity: true}, anonymous},
	"DisableIdentity":  {redis.UniversalOptions{DisableIdentity: true}, anonymous},
	"IdentitySuffix": {redis.UniversalOptions{IdentitySuffix: "x"},
		func(r rueidis.ClientOption) bool { return r.ClientSetInfo[0] == "rueidis(x)" }},
	"IsClusterMode": {redis.UniversalOptions{IsClusterMode: true}, func(r rueidis.ClientOption) bool { return !r.ForceSingleClient }},
}

// refusedWith holds, for each field that is refused, options with it.
var refusedWith = map[string]redis.UniversalOptions{
	"OnConnect": {OnConnect: func(context.Context, *redis.Conn) error { return nil }},
	"Protocol":  {Protocol: 4}, // 2 and 3 are carried over
	"ReadOnly":  {ReadOnly: true, MasterName: "m"},
}

// ignored holds the fields that mean nothing to locks, each with the reason.
var ignored = map[string]string{
	"MaxRetries":                             repeats,
	"MinRetryBackoff":                        repeats,
	"MaxRetryBackoff":                        repeats,
	"DialerRetries":                          repeats,
	"DialerRetryTimeout":                     repeats,
	"ContextTimeoutEnabled":                  "relock always keeps to the context",
	"PipelineReadBufferSize":                 pipelines,
	"PipelineWriteBufferSize":                pipelines,
	"PipelinePoolSize":                       pipelines,
	"AutoPipelineOptions":                    pipelines,
	"PoolFIFO":                               pools,
	"MaxConcurrentDials":                     pools,
	"PoolTimeout":                            pools,
	"MaxIdleConns":                           pools,
	"RouteByLatency":                         reads,
	"RouteByLatencyTolerance":                reads,
	"RouteRandomly":                          reads,
	"FailingTimeoutSeconds":                  reads,
	"UnstableResp3":                          "go-redis ignores it",
	"PushNotificationProcessor":              "no server pushes anything to these connections but the messages of locks",
	"MaintNotificationsConfig":               upgrades,
	"ClientSideCacheConfig":                  caches,
	"ClientSideCache":                        caches,
	"ClientSideCacheStrategy":                caches,
	"ClientSideCacheRefreshOnInvalidate":     caches,
	"ClientSideCacheCoalesceMisses":          caches,
	"ClientSideCacheInvalidationBatchWindow": caches,
}

const (
	repeats   = "relock repeats what may be repeated, until the caller's context ends"
	pipelines = "one connection, on which everything is pipelined"
	pools     = "the pool is only for subscriptions and WAIT"
	reads     = "locks are read and written at the primary only"
	upgrades  = "after maintenance the client connects again, and holds outlive that"
	caches    = "locks are never read from a cache"
)

var trusted = new(tls.Config)

func refuseToDial(context.Context, string, string) (net.Conn, error) { return nil, context.Canceled }

func anonymous(r rueidis.ClientOption) bool {
	return r.ClientSetInfo != nil && len(r.ClientSetInfo) == 0
}

func logsInAsUP(r rueidis.ClientOption) bool {
	got, err := r.AuthCredentialsFn(rueidis.AuthCredentialsContext{})
	return err == nil && got == rueidis.AuthCredentials{Username: "u", Password: "p"}
}

// provider is a StreamingCredentialsProvider with one subscriber.
type provider struct {
	latest   auth.Credentials
	listener auth.CredentialsListener
	ended    bool
}

func (p *provider) Subscribe(l auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	p.listener = l
	return p.latest, func() error { p.ended = true; return nil }, nil
}

// translate returns what NewClient would pass to rueidis.
func translate(t *testing.T, o redis.UniversalOptions) rueidis.ClientOption {
	t.Helper()
	if err := refused(&o); err != nil {
		t.Fatal(err)
	}
	l, end, err := loginOf(&o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	return clientOption(&o, l)
}

func TestEveryFieldHasItsFate(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool)
	for _, f := range reflect.VisibleFields(reflect.TypeFor[redis.UniversalOptions]()) {
		known[f.Name] = true
		_, isCarried := carried[f.Name]
		_, isRefused := refusedWith[f.Name]
		_, isIgnored := ignored[f.Name]
		if !isCarried && !isRefused && !isIgnored {
			t.Errorf("%s is neither carried over, nor refused, nor ignored for a reason", f.Name)
		}
		if isIgnored && (isCarried || isRefused) {
			t.Errorf("%s is ignored, and not", f.Name)
		}
		if !strings.Contains(string(readme), "`"+f.Name+"`") {
			t.Errorf("README.md does not say what becomes of %s", f.Name)
		}
	}
	for name := range maps.Keys(carried) {
		if !known[name] {
			t.Errorf("go-redis has no %s", name)
		}
	}
	for name := range maps.Keys(ignored) {
		if !known[name] {
			t.Errorf("go-redis has no %s", name)
		}
	}
}

func TestCarriedFieldsArrive(t *testing.T) {
	for name, c := range carried {
		if r := translate(t, c.with); !c.got(r) {
			t.Errorf("%s is lost: %+v", name, r)
		}
	}
}

func TestRefusedFieldsAreNamed(t *testing.T) {
	for name, o := range refusedWith {
		client, err := NewClient(&o)
		if err == nil || client != nil || !strings.HasPrefix(err.Error(), "goredis: NewClient: "+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := NewClient(&redis.UniversalOptions{OnConnect: refusedWith["OnConnect"].OnConnect, Protocol: 4})
	if err == nil || !strings.Contains(err.Error(), "OnConnect") || !strings.Contains(err.Error(), "Protocol 4") ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("two refused: %v", err)
	}
	if _, err := NewClient(nil); err == nil || !strings.Contains(err.Error(), "nil") {
		t.Errorf("no options: %v", err)
	}
}
