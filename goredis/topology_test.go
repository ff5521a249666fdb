package goredis_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
)

func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 1, "--requirepass", "secret", "--masterauth", "secret")
	var addrs []string
	for _, node := range cluster.Nodes() {
		addrs = append(addrs, node.Addr())
	}
	for name, o := range map[string]redis.UniversalOptions{
		"several addresses": {Addrs: addrs, DB: 3}, // which go-redis ignores
		"one address":       {Addrs: addrs[:1], IsClusterMode: true},
		"routed":            {Addrs: addrs, ReadOnly: true, RouteRandomly: true, MaxRedirects: 8},
		"RESP2":             {Addrs: addrs, Protocol: 2},
	} {
		t.Run(name, func(t *testing.T) { // one after the other: they share names
			o.Password = "secret"
			if mode := connect(t, o).Mode(); mode != rueidis.ClientModeCluster {
				t.Error(mode)
			}
			if !o.ReadOnly { // of go-redis: a replica may not have the key yet
				excludes(t, o)
				return
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := relock.Do(ctx, session(t, o).Mutex("goods:1"), func(context.Context) error { return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	fails(t, redis.UniversalOptions{Addrs: addrs}, "without a password")
}

// A server that is no cluster is one where the options say so.
func TestClusterModeNeedsACluster(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	fails(t, redis.UniversalOptions{Addrs: []string{server.Addr()}, IsClusterMode: true}, "one server")
	fails(t, redis.UniversalOptions{Addrs: []string{server.Addr(), server.Addr()}}, "two addresses")
}

// The sentinels have a user of their own, and so have the servers.
func TestSentinelWithPasswords(t *testing.T) {
	t.Parallel()
	deployment := redistest.StartSentinel(t)
	for _, sentinel := range deployment.Sentinels() {
		command(t, sentinel, "SENTINEL", "SET", "relock", "auth-pass", "secret")
	}
	for _, node := range deployment.Nodes() {
		command(t, node, "ACL", "SETUSER", "shop", "on", ">pw", "~*", "&*", "+@all")
		command(t, node, "CONFIG", "SET", "masterauth", "secret")
		command(t, node, "CONFIG", "SET", "requirepass", "secret")
	}
	var addrs []string
	for _, sentinel := range deployment.Sentinels() {
		addrs = append(addrs, sentinel.Addr())
		command(t, sentinel, "SENTINEL", "CONFIG", "SET", "sentinel-pass", "guarded")
		command(t, sentinel, "ACL", "SETUSER", "watcher", "on", ">watch", "&*", "+@all")
		command(t, sentinel, "ACL", "SETUSER", "default", "resetpass", ">guarded")
	}
	for name, o := range map[string]redis.UniversalOptions{
		"passwords": {Password: "secret", SentinelPassword: "guarded"},
		"users":     {Username: "shop", Password: "pw", SentinelUsername: "watcher", SentinelPassword: "watch", DB: 1},
		"provider": {SentinelUsername: "watcher", SentinelPassword: "watch", DB: 2,
			CredentialsProvider: func() (string, string) { return "shop", "pw" }},
		"RESP2":               {Password: "secret", SentinelPassword: "guarded", Protocol: 2, DB: 3},
		"as a cluster of one": {Password: "secret", SentinelPassword: "guarded", IsClusterMode: true, DB: 4},
	} {
		o.MasterName, o.Addrs = "relock", addrs
		t.Run(name, func(t *testing.T) {
			if mode := connect(t, o).Mode(); mode != rueidis.ClientModeSentinel {
				t.Error(mode)
			}
			excludes(t, o)
		})
	}
	o := redis.UniversalOptions{MasterName: "relock", Addrs: addrs, Password: "secret", SentinelPassword: "guarded"}
	followsFailover(t, o)
	for what, wrong := range map[string]func(*redis.UniversalOptions){
		"without the sentinels' password": func(o *redis.UniversalOptions) { o.SentinelPassword = "" },
		"without the servers' password":   func(o *redis.UniversalOptions) { o.Password = "" },
		"with an unknown name":            func(o *redis.UniversalOptions) { o.MasterName = "nobody" },
	} {
		o := o
		wrong(&o)
		fails(t, o, what)
	}
}

// followsFailover fails the test unless a session locks on the primary that the sentinels choose next.
func followsFailover(t *testing.T, o redis.UniversalOptions) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s := session(t, o)
	watcher := redis.NewSentinelClient(&redis.Options{Addr: o.Addrs[0], Password: o.SentinelPassword})
	defer watcher.Close()
	primary := func() string {
		return must(watcher.GetMasterAddrByName(ctx, o.MasterName).Result())(t)[1] // its port
	}
	old := primary()
	redistest.Eventually(t, patience, "another primary", func() bool {
		watcher.Failover(ctx, o.MasterName) // refused while one is under way
		return primary() != old
	})
	rdb := native(t, o)
	redistest.Eventually(t, patience, "a lock on the new primary", func() bool {
		m := s.Mutex("after failover")
		ok(t, m.Lock(ctx))
		n, err := rdb.Exists(ctx, m.Name()).Result()
		_ = m.Unlock(ctx) // a hold on the old primary may be lost
		return err == nil && n == 1
	})
}

// Sentinels and servers both demand certificates and passwords; the servers' come from a provider,
// which the sentinels must not be sent.
func TestSentinelWithTLS(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.TLS)
	ca := redistest.NewAuthority(t)
	_, primary := redistest.StartTLS(t, ca, "--requirepass", "secret")
	_, port, _ := net.SplitHostPort(primary)
	var lines []string
	watched := redistest.FreePort(t)
	for pair := ca.Settings(watched); len(pair) > 0; pair = pair[2:] {
		lines = append(lines, pair[0]+" "+pair[1])
	}
	lines = append(lines, fmt.Sprintf("sentinel monitor relock 127.0.0.1 %s 1", port), "sentinel auth-pass relock secret")
	sentinel := redistest.StartLoneSentinel(t, strings.Join(lines, "\n"))
	command(t, sentinel, "ACL", "SETUSER", "default", "resetpass", ">guarded")

	o := redis.UniversalOptions{MasterName: "relock", Addrs: []string{net.JoinHostPort("127.0.0.1", watched)},
		TLSConfig: ca.Client(), Password: "secret", SentinelPassword: "guarded"}
	excludes(t, o)
	o.Password, o.CredentialsProvider = "", func() (string, string) { return "", "secret" }
	excludes(t, o)
	o.TLSConfig = ca.Client()
	o.TLSConfig.Certificates = nil
	fails(t, o, "without a certificate of the client")
}
