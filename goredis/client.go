package goredis

import (
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// NewClient returns a client for relock.NewSession that connects as
// [redis.NewUniversalClient] does with the same options: with MasterName by way of Sentinel,
// with several addresses or IsClusterMode to a cluster, else to a single server. It does not
// change o.
//
// Unlike go-redis, NewClient connects at once, and fails if it cannot. An option that matters
// to locks and cannot be carried over is an error that names it; one that go-redis itself
// ignores, such as DB in a cluster, is ignored here too.
//
// These do nothing here, since they mean nothing to locks (README.md says why): MaxRetries,
// MinRetryBackoff, MaxRetryBackoff, DialerRetries, DialerRetryTimeout, ContextTimeoutEnabled,
// PipelineReadBufferSize, PipelineWriteBufferSize, PipelinePoolSize, AutoPipelineOptions,
// PoolFIFO, MaxConcurrentDials, PoolTimeout, MaxIdleConns, RouteByLatency,
// RouteByLatencyTolerance, RouteRandomly, ReadOnly without MasterName, FailingTimeoutSeconds,
// UnstableResp3, PushNotificationProcessor, MaintNotificationsConfig, ClientSideCacheConfig,
// ClientSideCache, ClientSideCacheStrategy, ClientSideCacheRefreshOnInvalidate,
// ClientSideCacheCoalesceMisses, ClientSideCacheInvalidationBatchWindow. Nor do hooks: see the
// package.
//
// The caller closes the client, after the sessions that use it.
func NewClient(o *redis.UniversalOptions) (rueidis.Client, error) {
	client, err := connect(o, "")
	if err != nil {
		return nil, fmt.Errorf("goredis: NewClient: %w", err)
	}
	return client, nil
}

// FromOptions returns a client for relock.NewSession that connects as [redis.NewClient] does with
// the same options: to a single server, over TCP or a Unix socket. The options may be those of
// [redis.ParseURL], or of a client that exists, which its method Options returns. It does not
// change o. For a redis.FailoverOptions or redis.ClusterOptions see [NewClient].
//
// Like NewClient it connects at once, and fails if it cannot. Options that matter to locks and
// cannot be carried over are errors that name them: OnConnect, and Protocol above 3.
//
// These do nothing here, since they mean nothing to locks (README.md says why): NodeAddress,
// MaxRetries, MinRetryBackoff, MaxRetryBackoff, DialerRetries, DialerRetryTimeout,
// DialerRetryBackoff, ContextTimeoutEnabled, PipelineReadBufferSize, PipelineWriteBufferSize,
// PipelinePoolSize, AutoPipelineOptions, PoolFIFO, MaxConcurrentDials, PoolTimeout,
// MaxIdleConns, Limiter, UnstableResp3, PushNotificationProcessor, FailingTimeoutSeconds,
// MaintNotificationsConfig, ClientSideCacheConfig, ClientSideCache, ClientSideCacheStrategy,
// ClientSideCacheRefreshOnInvalidate, ClientSideCacheCoalesceMisses,
// ClientSideCacheInvalidationBatchWindow. Nor do hooks: see the package.
//
// The caller closes the client, after the sessions that use it.
func FromOptions(o *redis.Options) (rueidis.Client, error) {
	if o == nil {
		return nil, errors.New("goredis: FromOptions: the options are nil")
	}
	client, err := connect(universal(o), o.Network)
	if err != nil {
		return nil, fmt.Errorf("goredis: FromOptions: %w", err)
	}
	return client, nil
}

// universal returns what is carried over or refused of o.
func universal(o *redis.Options) *redis.UniversalOptions {
	return &redis.UniversalOptions{
		Addrs:                        []string{o.Addr},
		DB:                           o.DB,
		ClientName:                   o.ClientName,
		Dialer:                       o.Dialer,
		OnConnect:                    o.OnConnect,
		Protocol:                     o.Protocol,
		Username:                     o.Username,
		Password:                     o.Password,
		CredentialsProvider:          o.CredentialsProvider,
		CredentialsProviderContext:   o.CredentialsProviderContext,
		StreamingCredentialsProvider: o.StreamingCredentialsProvider,
		DialTimeout:                  o.DialTimeout,
		ReadTimeout:                  o.ReadTimeout,
		WriteTimeout:                 o.WriteTimeout,
		ReadBufferSize:               o.ReadBufferSize,
		WriteBufferSize:              o.WriteBufferSize,
		PoolSize:                     o.PoolSize,
		MinIdleConns:                 o.MinIdleConns,
		MaxActiveConns:               o.MaxActiveConns,
		ConnMaxIdleTime:              o.ConnMaxIdleTime,
		ConnMaxLifetime:              o.ConnMaxLifetime,
		ConnMaxLifetimeJitter:        o.ConnMaxLifetimeJitter,
		TLSConfig:                    o.TLSConfig,
		//lint:ignore SA1019 go-redis still minds it
		DisableIndentity: o.DisableIndentity,
		DisableIdentity:  o.DisableIdentity,
		IdentitySuffix:   o.IdentitySuffix,
	}
}

// connect connects with o, to a single server over that network unless it is empty.
func connect(o *redis.UniversalOptions, network string) (rueidis.Client, error) {
	if o == nil {
		return nil, errors.New("the options are nil")
	}
	if err := refused(o); err != nil {
		return nil, err
	}
	login, unsubscribe, err := loginOf(o)
	if err != nil {
		return nil, err
	}
	option := clientOption(o, login)
	if network != "" {
		overNetwork(&option, o, network)
	}
	client, err := rueidis.NewClient(option)
	if err == nil && o.IsClusterMode && client.Mode() == rueidis.ClientModeStandalone {
		err = errors.New("IsClusterMode is set, but the server is not part of a cluster")
	}
	if err != nil {
		if client != nil { // a client of a single server comes with the error of its first dial
			client.Close()
		}
		unsubscribe()
		return nil, err
	}
	if o.StreamingCredentialsProvider != nil {
		return &streamingClient{client, unsubscribe}, nil
	}
	return client, nil
}

// refused returns an error, of one line, that names the options that cannot be carried over.
func refused(o *redis.UniversalOptions) error {
	var all error
	refuse := func(option, why string) {
		err := fmt.Errorf("%s cannot be carried over: %s", option, why)
		if all != nil {
			err = fmt.Errorf("%w; %w", all, err)
		}
		all = err
	}
	if o.OnConnect != nil {
		refuse("OnConnect", "it takes a connection of go-redis")
	}
	if o.Protocol > 3 {
		refuse(fmt.Sprint("Protocol ", o.Protocol), "only 2 and 3 are known")
	}
	if o.ReadOnly && kindOf(o) == sentinel && !failoverCluster(o) {
		refuse("ReadOnly with MasterName", "it sends every command to a replica, and locks need the primary")
	}
	return all
}
