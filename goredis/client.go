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
// The caller closes the client, after the sessions that use it.
func NewClient(o *redis.UniversalOptions) (rueidis.Client, error) {
	client, err := connect(o)
	if err != nil {
		return nil, fmt.Errorf("goredis: NewClient: %w", err)
	}
	return client, nil
}

func connect(o *redis.UniversalOptions) (rueidis.Client, error) {
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
	client, err := rueidis.NewClient(clientOption(o, login))
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
