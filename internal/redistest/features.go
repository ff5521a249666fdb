package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// A Feature is what some of the supported servers lack.
type Feature string

const (
	TLS           Feature = "TLS"                        // a build may leave it out
	ShardedPubSub Feature = "sharded pub/sub"            // Redis 7.0
	FineRules     Feature = "ACL rules for subcommands"  // Redis 7.0, which can take them away
	ClusterShards Feature = "CLUSTER SHARDS for clients" // Redis 8 and Valkey, for this client
	SentinelPace  Feature = "SENTINEL DEBUG"             // Redis 7.0
)

// Needs skips the test when the server lacks one of the features, and says which. Only
// a server that RELOCK_REDIS_SERVER names may lack any: with another, the test fails.
// Nothing else in the tests asks which server it is.
func Needs(t testing.TB, features ...Feature) {
	t.Helper()
	for _, f := range features {
		if Has(t, f) {
			continue
		}
		if os.Getenv("RELOCK_REDIS_SERVER") == "" {
			t.Fatalf("redistest: the redis-server in PATH lacks %s", f)
		}
		t.Skipf("redistest: the server that RELOCK_REDIS_SERVER names lacks %s", f)
	}
}

// Has reports whether the server has a feature. When there is no server the test is
// skipped or fails, as by [Start].
func Has(t testing.TB, f Feature) bool {
	t.Helper()
	binary, err := lookPath()
	if err == nil && f == TLS {
		has, err := hasTLS(binary)
		if err != nil {
			t.Fatal(err)
		}
		return has
	}
	var major int
	if err == nil {
		major, err = majorVersion(binary)
	}
	if err != nil {
		Start(t) // skips or fails
		t.Fatal(err)
	}
	if f == ClusterShards {
		return major >= 8
	}
	return major >= 7
}

var versionText = regexp.MustCompile(`\bv=(\d+)\.`)

// majorVersion returns the first number of the version of a server binary. Valkey's
// go on from Redis 7.2.
func majorVersion(binary string) (int, error) {
	v, err := versions.get(binary, func() (string, error) {
		out, err := exec.Command(binary, "--version").CombinedOutput()
		m := versionText.FindSubmatch(out)
		if m == nil {
			return "", fmt.Errorf("redistest: %s --version: %q, %v", binary, out, err)
		}
		return string(m[1]), nil
	})
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(v)
}

// hasTLS finds out whether the server exits for want of a certificate, or because it does
// not know the option, or has nothing that listens on such a port.
func hasTLS(binary string) (bool, error) {
	v, err := versions.get(binary+" tls", func() (string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
		defer cancel()
		out, err := exec.CommandContext(ctx, binary, "--port", "0", "--tls-port", "1").CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || ctx.Err() != nil {
			return "", fmt.Errorf("redistest: %s did not exit by itself: %v\n%s", binary, err, out)
		}
		return string(out), nil
	})
	return strings.Contains(v, "tls-cert-file"), err
}

// versions are answers that stay the same while the process lives.
var versions answers

type answers struct {
	mu    sync.Mutex // protects the following
	known map[string]string
}

func (a *answers) get(question string, ask func() (string, error)) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if answer, ok := a.known[question]; ok {
		return answer, nil
	}
	answer, err := ask()
	if err == nil {
		if a.known == nil {
			a.known = make(map[string]string)
		}
		a.known[question] = answer
	}
	return answer, err
}
