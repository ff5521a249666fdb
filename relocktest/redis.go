package relocktest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
)

// patience bounds what the kit itself asks of Redis.
const patience = time.Minute

// A Redis is a Redis in memory, and the network to it. It is made by [New], and is safe for
// concurrent use, except that Session, Client and Hold may stop the test and so must be called
// by the test's own goroutine.
type Redis struct {
	t      testing.TB
	server *memredis.Server

	// What the kit uses itself, made when needed, each with connections of its own.
	client func() rueidis.Client
	other  func() *relock.Session // somebody else

	mu        sync.Mutex // protects following
	processes map[*relock.Session]*memredis.Process
	clients   map[*relock.Session]rueidis.Client
}

func init() {
	memredis.Of = func(redis, session any) *memredis.Process {
		return redis.(*Redis).process(session.(*relock.Session))
	}
}

// New starts a Redis in memory, which ends with the test. It opens no port.
//
// In a bubble of testing/synctest, t must be the bubble's.
func New(t testing.TB) *Redis {
	t.Helper()
	server, err := memredis.New()
	if err != nil {
		t.Fatalf("relocktest: %v", err)
	}
	t.Cleanup(server.Close)
	r := &Redis{t: t, server: server, processes: make(map[*relock.Session]*memredis.Process)}
	r.clients = make(map[*relock.Session]rueidis.Client)
	r.client = sync.OnceValue(func() rueidis.Client { return r.connect(server.Process()) })
	r.other = sync.OnceValue(func() *relock.Session {
		process := server.Process()
		return r.start(process, r.connect(process))
	})
	return r
}

// Session starts a session with a client and connections of its own, as another process would.
// Both are closed when the test ends. Faults of the session end before that, so that it can
// release what it holds.
func (r *Redis) Session(opts ...relock.SessionOption) *relock.Session {
	r.t.Helper()
	process := r.server.Process()
	client := r.connect(process)
	session := r.start(process, client, opts...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.processes[session], r.clients[session] = process, client
	return session
}

// ClientOf returns the client of a session of r, for the application's own commands: what befalls
// the session's connections befalls them. It is closed when the test ends.
func (r *Redis) ClientOf(s *relock.Session) rueidis.Client {
	r.t.Helper()
	r.process(s) // of this Redis
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clients[s]
}

// Client returns a client that looks at the data. No fault but Restart concerns it. It is closed
// when the test ends.
func (r *Redis) Client() rueidis.Client {
	r.t.Helper()
	return r.client()
}

func (r *Redis) connect(process *memredis.Process) rueidis.Client {
	r.t.Helper()
	client, err := process.Client()
	if err != nil {
		r.t.Fatalf("relocktest: %v", err)
	}
	r.t.Cleanup(client.Close)
	return client
}

func (r *Redis) start(
	process *memredis.Process, client rueidis.Client, opts ...relock.SessionOption,
) *relock.Session {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	session, err := relock.NewSession(ctx, client, opts...)
	if err != nil {
		r.t.Fatalf("relocktest: %v", err)
	}
	r.t.Cleanup(func() {
		process.Heal()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = session.Close(ctx) // what it cannot release goes with the server
	})
	return session
}
