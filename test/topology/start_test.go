package topology_test

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// commandsOfScripts returns the commands in the files of lua.
func commandsOfScripts(t testing.TB) (all []string) {
	t.Helper()
	command := regexp.MustCompile(`\b(?:p?call|many)\('([a-z]+)'`)
	files, err := filepath.Glob("../../lua/*.lua")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, found := range command.FindAllStringSubmatch(string(text), -1) {
			all = append(all, found[1])
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// A session used to start on a server that lacks a command, renamed or never there, and without
// HDEL, HLEN, HEXISTS, ZREM or DEL Unlock returned nil and the lock stayed taken for a lease.
func TestACommandThatTheServerLacksIsReported(t *testing.T) {
	t.Parallel()
	optional := []string{"pubsub", "hrandfield"}
	scripts := commandsOfScripts(t)
	require.Greater(t, len(scripts), 20)
	for _, command := range append(scripts, "ping", "subscribe", "eval", "evalsha") {
		t.Run(command, func(t *testing.T) {
			d := replicated{redistest.Start(t, "--rename-command", command, "")}
			if slices.Contains(optional, command) {
				kit.SessionOn(t, d.Client(t))
				return
			}
			text := refusal(t, d)
			require.Regexp(t, `(?i)\b`+command+`(ing)?\b|running a script`, text)
			require.Regexp(t, "(?i)unknown", text, "what the server says")
			require.NotContains(t, text, "ACL", "it is not a right that is missing")
		})
	}
}

// A session that cannot start says what the server has said last.
func TestASessionThatCannotStartSaysWhatTheServerSaid(t *testing.T) {
	t.Parallel()
	start := func(client rueidis.Client) string {
		ctx, cancel := context.WithTimeout(kit.Background, 3*time.Second) // for one answer
		defer cancel()
		_, err := relock.NewSession(ctx, client)
		require.Error(t, err)
		return err.Error()
	}
	busy := redistest.Start(t, "--lua-time-limit", "10")
	client := busy.Client(t)
	// Its connections begin with CLIENT.
	caching := busy.Client(t, func(o *rueidis.ClientOption) { o.DisableCache = false })
	free := redistest.KeepBusy(t, busy)
	for _, client := range []rueidis.Client{client, caching} {
		text := start(client)
		require.Contains(t, text, "context deadline exceeded")
		require.Regexp(t, "BUSY (Redis|Valkey) is busy running a script", text)
		require.NotContains(t, text, "DisableCache")
	}
	free()
	kit.SessionOn(t, client)
	kit.SessionOn(t, caching)

	silent := redistest.Start(t)
	p := redistest.NewProxy(t, silent.Addr())
	client = kit.NewClient(t, p)
	p.Stall(true)
	require.Contains(t, start(client), "no answer from Redis for ")
	p.Stall(false)

	const most = 20
	full := redistest.Start(t, "--maxclients", "20")
	client = full.Client(t)
	for range most - 1 {
		conn, err := net.Dial("tcp", full.Addr())
		require.NoError(t, err)
		defer conn.Close()
		if _, err := conn.Write([]byte("PING\r\n")); err == nil {
			_, _ = conn.Read(make([]byte, 100))
		}
	}
	text := start(client)
	require.Contains(t, text, "max number of clients reached")
	require.NotContains(t, text, "deadline")
}

// trips counts how often a client has written something after it had read the answer to what was
// before.
type trips struct {
	mu    sync.Mutex
	n     int
	reads bool // it has read something since it wrote
}

func (c *trips) taken() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

func (c *trips) dial(
	ctx context.Context, addr string, d *net.Dialer, _ *tls.Config,
) (net.Conn, error) {
	conn, err := d.DialContext(ctx, "tcp", addr)
	return &tripConn{conn, c}, err
}

type tripConn struct {
	net.Conn
	*trips
}

func (c *tripConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	if c.reads {
		c.n++
	}
	c.reads = false
	c.mu.Unlock()
	return c.Conn.Write(b)
}

func (c *tripConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	c.reads = true
	c.mu.Unlock()
	return n, err
}

// A session took 11 round trips to start, 440 ms at a distance of 20 ms.
func TestASessionStartsInFewRoundTrips(t *testing.T) {
	t.Parallel()
	primary, _ := redistest.StartReplicas(t, 1)
	for _, c := range []struct {
		most int
		opts []relock.SessionOption
	}{
		{4, nil},
		{5, []relock.SessionOption{relock.WithReplicas(1, kit.Soon)}},
	} {
		count := new(trips)
		client := primary.Client(t, func(o *rueidis.ClientOption) {
			o.DialCtxFn, o.Dialer.KeepAlive = count.dial, time.Hour // it sends no PING of its own
		})
		var puts []func()
		for range 2 { // connections that the session takes over
			conn, put := client.Dedicate()
			require.NoError(t, conn.Do(kit.Background, conn.B().Ping().Build()).Error())
			puts = append(puts, put)
		}
		for _, put := range puts {
			put()
		}
		dialing := count.taken()
		kit.SessionOn(t, client, c.opts...)
		n := count.taken() - dialing
		require.Positive(t, n)
		require.LessOrEqual(t, n, c.most)
	}
}
