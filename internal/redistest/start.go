package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/redis/rueidis"
)

// Start starts redis-server for a test, as [Launch] does, in a temporary
// directory. The server is killed when the test ends, and the end of its log is
// shown if the test failed.
//
// When there is no redis-server in PATH the test is skipped, or stopped with
// t.Fatal if the environment sets RELOCK_REQUIRE_REDIS. Every other failure stops
// the test.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s, err := Launch(t.TempDir(), args...)
	return adopt(t, s, err)
}

// adopt gives a launched server, or the error of launching one, to a test.
func adopt(t testing.TB, s *Server, err error) *Server {
	t.Helper()
	switch {
	case errors.Is(err, exec.ErrNotFound) && os.Getenv("RELOCK_REQUIRE_REDIS") == "":
		t.Skip("redistest: redis-server is not installed; set RELOCK_REDIS_SERVER to its path")
	case err != nil:
		t.Fatal(err)
	}
	s.tb = t
	t.Cleanup(func() {
		s.Close()
		if tail := s.logTail(0); t.Failed() && tail != "" {
			t.Logf("log of redis-server %s:\n%s", s.Addr(), tail)
		}
	})
	return s
}

// lookPath returns the redis-server to run. One that the environment names and
// that is not there is a mistake, and no reason to skip.
func lookPath() (string, error) {
	if name := os.Getenv("RELOCK_REDIS_SERVER"); name != "" {
		path, err := exec.LookPath(name)
		if err != nil {
			return "", fmt.Errorf("redistest: RELOCK_REDIS_SERVER: %v", err)
		}
		return path, nil
	}
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", fmt.Errorf("redistest: %w", err)
	}
	return path, nil
}

// Client returns a client of this server alone, which is closed when the test
// ends. Client-side caching is off. Each mod may change the options. Client
// stops the test with t.Fatal when it cannot connect.
func (s *Server) Client(t testing.TB, mod ...func(*rueidis.ClientOption)) rueidis.Client {
	t.Helper()
	return newClient(t, rueidis.ClientOption{
		InitAddress:       []string{s.Addr()},
		Password:          s.password,
		ForceSingleClient: true,
	}, mod)
}

// newClient connects a client without caching, and closes it when the test ends.
func newClient(t testing.TB, option rueidis.ClientOption, mod []func(*rueidis.ClientOption)) rueidis.Client {
	t.Helper()
	option.DisableCache = true
	for _, f := range mod {
		f(&option)
	}
	client, err := rueidis.NewClient(option)
	if client != nil {
		// A single client comes with the error of its first dial.
		t.Cleanup(client.Close)
	}
	if err != nil {
		t.Fatalf("redistest: client of %v: %v", option.InitAddress, err)
	}
	return client
}
