package goredis_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/goredis"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSingleServer(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "relock") // a socket's name must be short
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "redis.sock")
	server := redistest.Start(t, "--unixsocket", socket, "--requirepass", "secret")
	command(t, server, "ACL", "SETUSER", "shop", "on", ">pw", "~*", "&*", "+@all")
	at := []string{server.Addr()}
	for name, o := range map[string]options{
		"alone":          {},
		"database":       {DB: 3},
		"socket":         {Addrs: []string{socket}, DB: 2},
		"RESP2":          {Protocol: 2, DB: 4},
		"small pool":     {PoolSize: 1, DB: 5},
		"named":          {ClientName: "shop", IdentitySuffix: "shop", DB: 6},
		"nameless":       {DisableIdentity: true, DB: 7},
		"short life":     {ConnMaxLifetime: 50 * time.Millisecond, DB: 8},
		"routed":         {ReadOnly: true, RouteByLatency: true, DB: 9},
		"short timeouts": {ReadTimeout: 2 * time.Second, WriteTimeout: time.Second, DB: 10},
		"user":           {Username: "shop", Password: "pw", DB: 1},
		"user, RESP2":    {Username: "shop", Password: "pw", DB: 11, Protocol: 2},
		"provider":       {DB: 12, CredentialsProvider: func() (string, string) { return "shop", "pw" }},
		"provider with context": {DB: 13, CredentialsProviderContext: func(context.Context) (string, string, error) {
			return "", "secret", nil
		}},
	} {
		if o.Addrs == nil {
			o.Addrs = at
		}
		if o.Username == "" && o.CredentialsProvider == nil && o.CredentialsProviderContext == nil {
			o.Password = "secret"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			excludes(t, o)
		})
	}
	fails(t, options{Addrs: at}, "without a password")
	fails(t, options{Addrs: at, Password: "wrong"}, "with a wrong one")
	fails(t, options{Addrs: at, Username: "nobody", Password: "pw"}, "with a wrong user")
	fails(t, options{Addrs: at, Password: "secret", IsClusterMode: true}, "a server that is no cluster")
}

func TestTLSWithClientCertificate(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.TLS)
	ca := redistest.NewAuthority(t)
	server, addr := redistest.StartTLS(t, ca)
	o := options{Addrs: []string{addr}, TLSConfig: ca.Client()}
	excludes(t, o)

	o.TLSConfig = ca.Client()
	o.TLSConfig.Certificates = nil
	fails(t, o, "without a certificate of the client")
	o.TLSConfig = redistest.NewAuthority(t).Client()
	fails(t, o, "with another authority")
	o.TLSConfig = nil
	fails(t, o, "without TLS")
	o.Addrs = []string{server.Addr()}
	excludes(t, o)
}

// stream is a provider whose credentials change.
type stream struct {
	password atomic.Value
	listener atomic.Value
	ends     atomic.Int32
}

func (s *stream) credentials() auth.Credentials {
	return auth.NewBasicCredentials("shop", s.password.Load().(string))
}

func (s *stream) Subscribe(l auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	s.listener.Store(l)
	return s.credentials(), func() error { s.ends.Add(1); return nil }, nil
}

// A provider is asked again for each new connection, and a stream's last word counts: a session
// goes on when the password has changed and its connections break.
func TestChangedPasswordIsUsedToConnectAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	command(t, server, "ACL", "SETUSER", "shop", "on", ">first", "~*", "&*", "+@all")
	login := new(stream)
	login.password.Store("first")
	at := []string{server.Addr()}
	client, err := goredis.NewClient(&options{Addrs: at, StreamingCredentialsProvider: login})
	require.NoError(t, err)
	t.Cleanup(func() { // after the end of the session
		client.Close()
		assert.EqualValues(t, 1, login.ends.Load(), "subscriptions that Close ended")
	})
	provided := connect(t, options{Addrs: at, CredentialsProvider: func() (string, string) {
		return login.credentials().BasicAuth()
	}})
	ctx := t.Context()
	sessions := []*relock.Session{kit.SessionOn(t, client), kit.SessionOn(t, provided)}
	var held []*relock.Mutex
	for i, s := range sessions {
		held = append(held, s.Mutex(fmt.Sprint("held ", i)))
		require.NoError(t, held[i].Lock(ctx))
	}

	command(t, server, "ACL", "SETUSER", "shop", "resetpass", ">second")
	login.password.Store("second")
	login.listener.Load().(auth.CredentialsListener).OnNext(login.credentials())
	command(t, server, "CLIENT", "KILL", "USER", "shop")

	for i, s := range sessions {
		assert.NoError(t, s.Mutex(fmt.Sprint("taken ", i)).Lock(ctx))
		assert.NoError(t, held[i].Unlock(ctx), "held while the connections broke")
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 1, "--requirepass", "secret", "--masterauth", "secret")
	var addrs []string
	for _, node := range cluster.Nodes() {
		addrs = append(addrs, node.Addr())
	}
	var dialed atomic.Int64
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialed.Add(1)
		if addr == "127.0.0.2:1" {
			addr = addrs[0]
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	for name, o := range map[string]options{
		"several addresses": {Addrs: addrs, DB: 3}, // which go-redis ignores
		"dialer":            {Addrs: []string{"127.0.0.2:1"}, IsClusterMode: true, Dialer: dial},
		"one address":       {Addrs: addrs[:1], IsClusterMode: true},
		"routed":            {Addrs: addrs, ReadOnly: true, RouteRandomly: true, MaxRedirects: 8},
		"RESP2":             {Addrs: addrs, Protocol: 2},
	} {
		t.Run(name, func(t *testing.T) { // one after the other: they share names
			o.Password = "secret"
			assert.Equal(t, rueidis.ClientModeCluster, connect(t, o).Mode())
			if !o.ReadOnly { // of go-redis: a replica may not have the key yet
				excludes(t, o)
				return
			}
			assert.NoError(t, kit.SessionOn(t, connect(t, o)).Mutex("goods:1").Lock(t.Context()))
		})
	}
	assert.GreaterOrEqual(t, dialed.Load(), int64(6), "three nodes, two clients")
	fails(t, options{Addrs: addrs}, "without a password")
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
	for name, o := range map[string]options{
		"passwords": {Password: "secret", SentinelPassword: "guarded"},
		"users":     {Username: "shop", Password: "pw", SentinelUsername: "watcher", SentinelPassword: "watch", DB: 1},
		"provider": {SentinelUsername: "watcher", SentinelPassword: "watch", DB: 2,
			CredentialsProvider: func() (string, string) { return "shop", "pw" }},
		"RESP2":               {Password: "secret", SentinelPassword: "guarded", Protocol: 2, DB: 3},
		"as a cluster of one": {Password: "secret", SentinelPassword: "guarded", IsClusterMode: true, DB: 4},
	} {
		o.MasterName, o.Addrs = "relock", addrs
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, rueidis.ClientModeSentinel, connect(t, o).Mode())
			excludes(t, o)
		})
	}
	for what, o := range map[string]options{
		"without the sentinels' password": {MasterName: "relock", Password: "secret"},
		"without the servers' password":   {MasterName: "relock", SentinelPassword: "guarded"},
		"with an unknown name":            {MasterName: "nobody", Password: "secret", SentinelPassword: "guarded"},
	} {
		o.Addrs = addrs
		fails(t, o, what)
	}
}

func TestMain(m *testing.M) { kit.Main(m) }

type options = redis.UniversalOptions

func command(t testing.TB, s *redistest.Server, args ...string) {
	t.Helper()
	_, err := s.Do(args...)
	require.NoError(t, err)
}

// connect returns a client with these options, which the end of the test closes.
func connect(t testing.TB, o options) rueidis.Client {
	t.Helper()
	client, err := goredis.NewClient(&o)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// excludes fails the test unless two sessions with these options exclude each other, one wakes
// the other, and go-redis with the same options finds the lock where they keep it.
func excludes(t testing.TB, o options) {
	t.Helper()
	ctx, a, b := t.Context(), kit.SessionOn(t, connect(t, o)), kit.SessionOn(t, connect(t, o))
	if o.MasterName != "" {
		o.IsClusterMode = false // that client of go-redis leaves goroutines behind (v9.23.0)
	}
	rdb := redis.NewUniversalClient(&o)
	defer rdb.Close()
	for _, name := range []string{"goods:1", "goods:2", "goods:3", "goods:4"} { // in a cluster, of several nodes
		mine, theirs := a.Mutex(name), b.Mutex(name)
		kit.Lock(t, ctx, mine)
		require.EqualValues(t, 1, rdb.Exists(ctx, name).Val(), "go-redis does not see the lock on %s", name)
		got := kit.Async(func() error { return theirs.Lock(ctx) })
		kit.Waits(t, b, name)
		require.Empty(t, got, "two have %s", name)
		kit.Unlock(t, ctx, mine)
		require.NoError(t, kit.Receive(t, got, "the other session to get in"))
		kit.Unlock(t, ctx, theirs)
		n, err := rdb.Exists(ctx, name).Result()
		require.NoError(t, err)
		require.Zero(t, n, "%s is locked after Unlock", name)
	}
}

// fails fails the test if a client can be made.
func fails(t testing.TB, o options, what string) {
	t.Helper()
	client, err := goredis.NewClient(&o)
	if !assert.Nil(t, client, what) {
		client.Close()
	}
	assert.ErrorContains(t, err, "goredis: NewClient: ", what)
}
