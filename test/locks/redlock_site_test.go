package locks_test

import (
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

// site is a number of independent servers, with a proxy before each and a session behind
// that.
type site struct {
	servers  []*redistest.Server
	proxies  []*redistest.Proxy
	sessions []*relock.Session
	clients  []rueidis.Client // to the servers themselves
}

func newSite(t testing.TB, n int, opts ...relock.SessionOption) *site {
	t.Helper()
	return newSiteOf(t, n, nil, opts...)
}

// newSiteOf starts the servers with arguments of their own.
func newSiteOf(t testing.TB, n int, args []string, opts ...relock.SessionOption) *site {
	t.Helper()
	p := new(site)
	for range n {
		p.servers = append(p.servers, redistest.Start(t, args...))
	}
	for _, s := range p.servers {
		p.proxies = append(p.proxies, redistest.NewProxy(t, s.Addr()))
		p.clients = append(p.clients, kit.NewClient(t, s))
	}
	p.sessions = p.more(t, opts...)
	return p
}

// more returns another set of sessions, as of another process.
func (p *site) more(t testing.TB, opts ...relock.SessionOption) (sessions []*relock.Session) {
	t.Helper()
	for _, at := range p.proxies {
		sessions = append(sessions, kit.NewSession(t, at, opts...))
	}
	return sessions
}

func (p *site) redlock(name string, opts ...relock.LockOption) *relock.Redlock {
	return relock.NewRedlock(p.sessions, name, opts...)
}

func (p *site) answers(i int) bool { return p.servers[i].Running() }

// holders returns on how many of the servers that answer a lock is held.
func (p *site) holders(t testing.TB, name string) (n int) {
	t.Helper()
	for i := range p.servers {
		if p.answers(i) && kit.Exists(t, p.clients[i], name) {
			n++
		}
	}
	return n
}

// left returns how many keys the servers have that answer, except of fencing tokens.
func (p *site) left(t testing.TB) (n int) {
	t.Helper()
	for i := range p.servers {
		if p.answers(i) {
			n += len(kit.Keys(t, p.clients[i]))
		}
	}
	return n
}

func (p *site) nothingLeft(t testing.TB) {
	t.Helper()
	redistest.Eventually(t, kit.Quickly, "nothing to be left", func() bool { return p.left(t) == 0 })
}

// asked counts the acquisitions that are sent to a server from now on.
func (p *site) asked(i int) *atomic.Int64 {
	n := new(atomic.Int64)
	count := func() { n.Add(1) }
	newTap(p.proxies[i]).on.Store(&count)
	return n
}

// fully takes a Redlock, again and again until it is held on every server.
func (p *site) fully(t testing.TB, r *relock.Redlock) {
	t.Helper()
	redistest.Eventually(t, kit.Soon, "the lock to be held on every server", func() bool {
		kit.Lock(t, kit.Background, r)
		if p.holders(t, r.Name()) == len(p.servers) {
			return true
		}
		kit.Unlock(t, kit.Background, r)
		return false
	})
}
