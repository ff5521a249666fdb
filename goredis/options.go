package goredis

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// The defaults of go-redis.
const (
	defaultDialTimeout = 5 * time.Second
	defaultReadTimeout = 5 * time.Second
)

// topologyInterval is how often the sentinels are asked for the primary, and a cluster for its
// nodes. Without that a client that misses the message of a failover stays with the old primary.
const topologyInterval = 5 * time.Second

// kind is the kind of a deployment.
type kind int

const (
	single kind = iota
	sentinel
	cluster
)

// kindOf decides like redis.NewUniversalClient.
func kindOf(o *redis.UniversalOptions) kind {
	switch {
	case o.MasterName != "":
		return sentinel
	case len(o.Addrs) > 1 || o.IsClusterMode:
		return cluster
	}
	return single
}

// failoverCluster reports whether go-redis would send reads to all servers behind Sentinel,
// and writes to the primary.
func failoverCluster(o *redis.UniversalOptions) bool {
	return o.MasterName != "" && (o.RouteByLatency || o.RouteRandomly || o.IsClusterMode)
}

// clientOption translates o for rueidis.
func clientOption(o *redis.UniversalOptions, login login) rueidis.ClientOption {
	r := rueidis.ClientOption{
		InitAddress:         addresses(o),
		TLSConfig:           o.TLSConfig,
		ClientName:          o.ClientName,
		ClientSetInfo:       identity(o),
		AlwaysRESP2:         o.Protocol == 2,
		ConnWriteTimeout:    timeout(o),
		ConnLifetime:        lifetime(o),
		ReadBufferEachConn:  o.ReadBufferSize,
		WriteBufferEachConn: o.WriteBufferSize,
		BlockingPoolSize:    poolSize(o),
		BlockingPoolCleanup: max(0, o.ConnMaxIdleTime),
		BlockingPoolMinSize: max(0, o.MinIdleConns),
		DisableCache:        true, // it needs RESP3, a permission and memory, and locks do not use it
	}
	r.Dialer.Timeout = max(0, o.DialTimeout)
	switch kindOf(o) {
	case single:
		r.ForceSingleClient = true
		r.SelectDB = o.DB
	case sentinel:
		r.ShuffleInit = true
		r.SelectDB = o.DB
		r.Sentinel = rueidis.SentinelOption{
			MasterSet:               o.MasterName,
			Dialer:                  r.Dialer,
			TLSConfig:               r.TLSConfig,
			ClientName:              o.ClientName,
			TopologyRefreshInterval: topologyInterval,
		}
		r.Sentinel.Username, r.Sentinel.Password = credentials(o.SentinelUsername, o.SentinelPassword)
	case cluster:
		r.ShuffleInit = true
		r.ClusterOption.MaxMovedRedirections = max(0, o.MaxRedirects)
		r.ClusterOption.ShardsRefreshInterval = topologyInterval
	}
	authenticate(&r, o, login)
	return r
}

// addresses returns a copy of the addresses, since rueidis shuffles them.
func addresses(o *redis.UniversalOptions) []string {
	switch {
	case len(o.Addrs) > 0:
		addrs := slices.Clone(o.Addrs)
		for i, addr := range addrs {
			addrs[i] = cmp.Or(addr, "localhost:6379")
		}
		return addrs
	case kindOf(o) == sentinel:
		return []string{"127.0.0.1:26379"}
	}
	return []string{"127.0.0.1:6379"}
}

// identity returns what the client tells the server about its library; nil for the default.
func identity(o *redis.UniversalOptions) []string {
	switch {
	//lint:ignore SA1019 go-redis still minds it
	case o.DisableIdentity || o.DisableIndentity:
		return rueidis.DisableClientSetInfo
	case o.IdentitySuffix != "":
		return []string{rueidis.LibName + "(" + o.IdentitySuffix + ")", rueidis.LibVer}
	}
	return nil
}

// timeout returns the longer of both timeouts. Without one, which a negative value asks for, a
// dead connection would never be noticed: it stands for the default of rueidis, 10 s.
func timeout(o *redis.UniversalOptions) time.Duration {
	read := cmp.Or(o.ReadTimeout, defaultReadTimeout)
	write := cmp.Or(o.WriteTimeout, read)
	if read < 0 || write < 0 {
		return 0
	}
	return max(read, write)
}

// lifetime returns how long a shared connection lives; 0: for ever. The jitter is one of
// clients, not of connections, of which a client has few.
func lifetime(o *redis.UniversalOptions) time.Duration {
	d := o.ConnMaxLifetime
	if d <= 0 {
		return 0
	}
	if jitter := min(o.ConnMaxLifetimeJitter, d/2); jitter > 0 {
		d += rand.N(2*jitter) - jitter
	}
	return d
}

// poolSize returns the size of the pool for connections that one caller needs for itself; 0
// for the default of rueidis. go-redis does not count subscriptions; here they are from the
// pool too. A session has one, and for a moment another that takes its place.
func poolSize(o *redis.UniversalOptions) int {
	n := o.PoolSize
	if o.MaxActiveConns > 0 && (n <= 0 || n > o.MaxActiveConns) {
		n = o.MaxActiveConns
	}
	if n <= 0 {
		return 0
	}
	return n + 2
}
