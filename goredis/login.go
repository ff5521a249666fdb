package goredis

import (
	"context"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/redis/rueidis"
)

// A login returns the user and the password for a new connection; nil if they never change.
type login func() (username, password string, err error)

// loginOf returns the login of the first provider that go-redis would ask. The caller must call
// end when the client is closed.
func loginOf(o *redis.UniversalOptions) (l login, end func(), err error) {
	end = func() {}
	switch {
	case o.StreamingCredentialsProvider != nil:
		s := new(stream)
		now, unsubscribe, err := o.StreamingCredentialsProvider.Subscribe(s)
		if err != nil {
			return nil, nil, fmt.Errorf("StreamingCredentialsProvider: %w", err)
		}
		s.start(now)
		if unsubscribe != nil {
			end = func() { _ = unsubscribe() } // nobody is left to tell
		}
		return s.login, end, nil
	case o.CredentialsProviderContext != nil:
		return func() (string, string, error) {
			ctx, cancel := context.WithTimeout(context.Background(), dialTimeout(o))
			defer cancel()
			return o.CredentialsProviderContext(ctx)
		}, end, nil
	case o.CredentialsProvider != nil:
		return func() (username, password string, err error) {
			username, password = o.CredentialsProvider()
			return username, password, nil
		}, end, nil
	}
	return nil, end, nil
}

// credentials returns what to authenticate with. Like go-redis, a user without a password does
// not authenticate at all.
func credentials(username, password string) (string, string) {
	if password == "" {
		return "", ""
	}
	return username, password
}

// A stream keeps the latest credentials of a provider. Each new connection uses them. Connections
// that exist are left alone; when the server ends one whose token has expired, the client
// connects again, and holds outlive that.
type stream struct {
	mu     sync.Mutex // protects the following
	latest auth.Credentials
}

// start stores the first credentials, unless newer ones have come already.
func (s *stream) start(c auth.Credentials) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest == nil {
		s.latest = c
	}
}

// OnNext stores new credentials.
func (s *stream) OnNext(c auth.Credentials) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest = c
}

// OnError does nothing: the credentials before are good until the server refuses them, and then
// its error says so.
func (s *stream) OnError(error) {}

func (s *stream) login() (username, password string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest == nil {
		return "", "", nil
	}
	username, password = s.latest.BasicAuth()
	return username, password, nil
}

// streamingClient ends its subscription to credentials when it is closed.
type streamingClient struct {
	rueidis.Client
	unsubscribe func()
}

func (c *streamingClient) Close() {
	c.Client.Close()
	c.unsubscribe()
}
