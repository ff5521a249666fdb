package locks_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { kit.Main(m) }

// A kind is a type of lock, or a side of one. What holds for every lock is tested over all kinds.
// A Group has members of the name and of the name with " too".
type kind struct {
	name    string
	servers int // deployments
	of      func(ss []*relock.Session, name string, o ...relock.LockOption) relock.Locker
	fenced  bool // has tokens
	reads   bool
}

var kinds = []kind{
	{"Mutex", 1, func(ss []*relock.Session, name string, o ...relock.LockOption) relock.Locker {
		return ss[0].Mutex(name, o...)
	}, true, false},
	{"FairMutex", 1, func(ss []*relock.Session, name string, o ...relock.LockOption) relock.Locker {
		return ss[0].FairMutex(name, o...)
	}, true, false},
	{"writer", 1, func(ss []*relock.Session, name string, o ...relock.LockOption) relock.Locker {
		return ss[0].RWMutex(name, o...)
	}, true, false},
	{"reader", 1, func(ss []*relock.Session, name string, o ...relock.LockOption) relock.Locker {
		return ss[0].RWMutex(name, o...).RLocker()
	}, false, true},
	{"Group", 1, func(ss []*relock.Session, name string, o ...relock.LockOption) relock.Locker {
		return relock.NewGroup(ss[0].Mutex(name, o...), ss[0].Mutex(name+" too", o...))
	}, false, false},
	{"mixed Group", 1, func(ss []*relock.Session, name string, o ...relock.LockOption) relock.Locker {
		return relock.NewGroup(ss[0].RWMutex(name+" too", o...).RLocker(), relock.NewGroup(ss[0].FairMutex(name, o...)))
	}, false, false},
	{"Redlock", 3, func(ss []*relock.Session, name string, o ...relock.LockOption) relock.Locker {
		return relock.NewRedlock(ss, name, o...)
	}, true, false},
	{"Semaphore", 1, func(ss []*relock.Session, name string, o ...relock.LockOption) relock.Locker {
		return ss[0].Semaphore(name, 1, o...)
	}, true, false},
}

// on returns a lock of one session.
func (k *kind) on(s *relock.Session, name string, o ...relock.LockOption) relock.Locker {
	return k.of([]*relock.Session{s}, name, o...)
}

// sessions starts servers, and a session on each.
func (k *kind) sessions(t testing.TB, o ...relock.SessionOption) (ss []*relock.Session) {
	for range k.servers {
		ss = append(ss, kit.NewSession(t, redistest.Start(t), o...))
	}
	return ss
}

// eachOf runs f in a parallel subtest for each kind for which all conditions hold.
func eachOf(t *testing.T, f func(t *testing.T, k *kind), when ...func(k *kind) bool) {
	t.Helper()
	t.Parallel()
next:
	for i := range kinds {
		k := &kinds[i]
		for _, holds := range when {
			if !holds(k) {
				continue next
			}
		}
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			f(t, k)
		})
	}
}

// alien reports whether one of two kinds is a Semaphore, which has no name with another.
func alien(k, other *kind) bool { return (k.name == "Semaphore") != (other.name == "Semaphore") }

func fenced(k *kind) bool    { return k.fenced }
func exclusive(k *kind) bool { return !k.reads }

// stranger is a Locker of a type that the package does not know.
type stranger struct{ relock.Locker }

// order sends one command that must succeed.
func order(t testing.TB, client rueidis.Client, args ...string) {
	t.Helper()
	require.NoError(t, client.Do(kit.Background, client.B().Arbitrary(args...).Build()).Error())
}

func pttl(t testing.TB, client rueidis.Client, key string) time.Duration {
	t.Helper()
	ms, err := client.Do(kit.Background, client.B().Pttl().Key(key).Build()).AsInt64()
	require.NoError(t, err)
	return time.Duration(ms) * time.Millisecond
}

func inspect(t testing.TB, s *relock.Session, name string) relock.State {
	t.Helper()
	state, err := s.Inspect(kit.Background, name)
	require.NoError(t, err)
	return state
}

// waiting waits until n contenders are in the queue of a lock.
func waiting(t testing.TB, s *relock.Session, name string, n int) {
	t.Helper()
	redistest.Eventually(t, kit.Soon, fmt.Sprintf("%d waiters for %s", n, name), func() bool {
		state, err := s.Inspect(kit.Background, name)
		return err == nil && state.Waiters == n
	})
}

// nothingLeft waits until nothing of any lock is left in Redis but tokens.
func nothingLeft(t testing.TB, clients ...rueidis.Client) {
	t.Helper()
	keysLeft(t, 0, clients...)
}

// keysLeft waits until so many keys of locks are left in Redis.
func keysLeft(t testing.TB, want int, clients ...rueidis.Client) {
	t.Helper()
	redistest.Eventually(t, kit.Quickly, "everything else to be released", func() bool {
		n := 0
		for _, c := range clients {
			n += len(kit.Keys(t, c))
		}
		return n == want
	})
}

// mustBeQuiet checks that nobody holds or waits for the lock, and that the sessions have forgotten it.
func mustBeQuiet(t testing.TB, client rueidis.Client, name string, sessions ...*relock.Session) {
	t.Helper()
	redistest.Eventually(t, kit.Quickly, "everything to be released", func() bool {
		for _, key := range kit.Keys(t, client) {
			if key == name || strings.Contains(key, "rwlock_timeout") || strings.Contains(key, "queue:") {
				return false
			}
		}
		return true
	})
	for _, s := range sessions {
		require.False(t, peek.KnowsRW(s), "the session remembers something")
	}
}

// lose has l, whose names begin with name, lost whole.
func (k *kind) lose(t testing.TB, ss []*relock.Session, name string, l relock.Locker) {
	t.Helper()
	force(t, l, name, ss...)
	if strings.Contains(k.name, "Group") {
		_, err := ss[0].ForceUnlock(kit.Background, name+" too")
		require.NoError(t, err)
	}
}

// force opens a lock on every server, and waits until its holder knows.
func force(t testing.TB, l relock.Locker, name string, by ...*relock.Session) {
	t.Helper()
	done := l.Done()
	for _, s := range by {
		_, err := s.ForceUnlock(kit.Background, name)
		require.NoError(t, err)
	}
	kit.Receive(t, done, "the holder to be told")
	require.ErrorIs(t, l.Err(), relock.ErrLost)
}

// traffic is what locks have cost a server.
type traffic struct {
	scripts  int64 // sent
	acquired int64 // exclusive holds that were granted
}

// trafficOf counts what f costs a server. The scripts must have been used before.
func trafficOf(server *redistest.Server, f func()) traffic {
	before := server.CommandStats()
	f()
	after := server.CommandStats()
	return traffic{
		scripts:  after["evalsha"] + after["eval"] - before["evalsha"] - before["eval"],
		acquired: after["hset"] - before["hset"],
	}
}

// waits tells of the calls that wait.
type waits struct {
	relock.NopObserver
	c chan string
}

func newWaits() waits { return waits{c: make(chan string, 100)} }

func (w waits) Waiting(_ context.Context, e relock.WaitEvent) { w.c <- e.Name }

// A tap sees the acquisitions that sessions send, before the servers do.
type tap struct{ on atomic.Pointer[func()] }

func newTap(proxies ...*redistest.Proxy) *tap {
	p := new(tap)
	for _, proxy := range proxies {
		proxy.DropReplies(func(request []byte) bool {
			f := p.on.Load()
			acquires := bytes.Contains(request, []byte("relock_fence")) && !bytes.Contains(request, []byte("redisson_lock__channel"))
			if f != nil && acquires {
				(*f)()
			}
			return false // no reply is to be dropped
		})
	}
	return p
}

// at has f called when the nth acquisition from now on is on its way.
func (p *tap) at(n int, f func()) {
	var seen atomic.Int64
	hook := func() {
		if seen.Add(1) == int64(n) {
			f()
		}
	}
	p.on.Store(&hook)
}

// A site is a number of independent servers, with a proxy before each and a session behind that.
type site struct {
	servers  []*redistest.Server
	proxies  []*redistest.Proxy
	sessions []*relock.Session
	clients  []rueidis.Client // to the servers themselves
}

func newSite(t testing.TB, n int, o ...relock.SessionOption) *site {
	t.Helper()
	p := new(site)
	for range n {
		server := redistest.Start(t)
		p.servers = append(p.servers, server)
		p.proxies = append(p.proxies, redistest.NewProxy(t, server.Addr()))
		p.clients = append(p.clients, kit.NewClient(t, server))
	}
	p.sessions = p.more(t, o...)
	return p
}

// more returns another set of sessions, as of another process.
func (p *site) more(t testing.TB, o ...relock.SessionOption) (sessions []*relock.Session) {
	t.Helper()
	for _, at := range p.proxies {
		sessions = append(sessions, kit.NewSession(t, at, o...))
	}
	return sessions
}

// cancels calls Lock and TryLock of l, and cancels each call while its first script is on its way to a server, its
// second, and so on, or while it sleeps. The scripts are executed all the same, and what they get is given back: as
// many keys as before are left.
func (p *site) cancels(t testing.TB, l relock.Locker, left int, free bool) {
	t.Helper()
	tap := newTap(p.proxies...)
	for _, wait := range []bool{true, false} {
		for n := 1; n <= 12; n++ {
			keysLeft(t, left, p.clients...)
			ctx, cancel := context.WithCancelCause(kit.Background)
			tap.at(n, func() { cancel(kit.ErrStop) })
			late := time.AfterFunc(50*time.Millisecond, func() { cancel(kit.ErrStop) })
			ok, err := true, error(nil)
			if wait {
				err = l.Lock(ctx)
			} else {
				ok, err = l.TryLock(ctx)
			}
			tap.on.Store(nil)
			late.Stop()
			switch {
			case err != nil:
				require.ErrorIs(t, err, kit.ErrStop, "at script %d", n)
				require.ErrorIs(t, err, context.Canceled, "at script %d", n)
				require.ErrorIs(t, l.Err(), relock.ErrNotHeld)
				require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrNotHeld)
			case ok:
				require.True(t, free)
				require.NoError(t, l.Err())
				kit.Unlock(t, kit.Background, l)
			default:
				require.False(t, wait)
			}
			cancel(nil)
		}
	}
	keysLeft(t, left, p.clients...)
}

// holders returns on how many servers a lock is held.
func (p *site) holders(t testing.TB, name string) (n int) {
	t.Helper()
	for _, c := range p.clients {
		if kit.Exists(t, c, name) {
			n++
		}
	}
	return n
}
