package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
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
	OwnMoves      Feature = "moves of slots by servers"  // Redis 8.4 and Valkey 9.0
	LuaModule     Feature = "Lua that can be unloaded"   // Valkey 9.1
)

// since is the first version that has a feature, of Redis and of Valkey alike, whose versions go on
// from Redis 7.2.
var since = map[Feature]version{
	ShardedPubSub: {7, 0}, FineRules: {7, 0}, SentinelPace: {7, 0}, ClusterShards: {8, 0}, OwnMoves: {8, 4},
	LuaModule: {9, 1}, // Redis has not come so far
}

// Needs skips the test when the server lacks one of the features, and says which. Only
// a server that RELOCK_REDIS_SERVER names may lack any, and the redis-server in PATH what
// came after Redis 7.0: else the test fails. Nothing else in the tests asks which server it is.
func Needs(t testing.TB, features ...Feature) {
	t.Helper()
	for _, f := range features {
		if Has(t, f) {
			continue
		}
		if os.Getenv("RELOCK_REDIS_SERVER") != "" {
			t.Skipf("redistest: the server that RELOCK_REDIS_SERVER names lacks %s", f)
		}
		if !(version{7, 0}).before(since[f]) {
			t.Fatalf("redistest: the redis-server in PATH lacks %s", f)
		}
		t.Skipf("redistest: the redis-server in PATH lacks %s; make test-servers has servers that do not", f)
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
	var v version
	if err == nil {
		v, err = versionOf(binary)
	}
	if err != nil {
		Start(t) // skips or fails
		t.Fatal(err)
	}
	return !v.before(since[f])
}

// version is a major and a minor version.
type version [2]int

func (v version) before(w version) bool { return v[0] < w[0] || v[0] == w[0] && v[1] < w[1] }

var versionText = regexp.MustCompile(`\bv=(\d+\.\d+)\.`)

// versionOf returns the version of a server binary.
func versionOf(binary string) (v version, err error) {
	text, err := versions.get(binary, func() (string, error) {
		out, err := exec.Command(binary, "--version").CombinedOutput()
		m := versionText.FindSubmatch(out)
		if m == nil {
			return "", fmt.Errorf("redistest: %s --version: %q, %v", binary, out, err)
		}
		return string(m[1]), nil
	})
	if err == nil {
		_, err = fmt.Sscanf(text, "%d.%d", &v[0], &v[1])
	}
	return v, err
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
