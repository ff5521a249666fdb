package kit

import (
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
)

// An outage keeps Redis from doing what one client, or all of them, ask.
type Outage struct {
	Name  string
	Begin func(*redistest.Server, *redistest.Proxy)
	Heal  func(*redistest.Server, *redistest.Proxy)
}

var Outages = []Outage{
	{
		Name:  "frozen",
		Begin: func(s *redistest.Server, _ *redistest.Proxy) { s.Freeze() },
		Heal:  func(s *redistest.Server, _ *redistest.Proxy) { s.Thaw() },
	}, {
		Name:  "killed",
		Begin: func(s *redistest.Server, _ *redistest.Proxy) { s.Kill() },
		Heal:  func(s *redistest.Server, _ *redistest.Proxy) { s.Restart() },
	}, {
		Name:  "read-only",
		Begin: func(s *redistest.Server, _ *redistest.Proxy) { command(s, "REPLICAOF", "127.0.0.1", "1") },
		Heal:  func(s *redistest.Server, _ *redistest.Proxy) { command(s, "REPLICAOF", "NO", "ONE") },
	}, {
		Name:  "blackhole",
		Begin: func(_ *redistest.Server, p *redistest.Proxy) { p.Blackhole(true) },
		Heal:  func(_ *redistest.Server, p *redistest.Proxy) { p.Blackhole(false) },
	}, {
		Name:  "stalled",
		Begin: func(_ *redistest.Server, p *redistest.Proxy) { p.Stall(true) },
		Heal:  func(_ *redistest.Server, p *redistest.Proxy) { p.Stall(false) },
	}, {
		Name:  "refused",
		Begin: func(_ *redistest.Server, p *redistest.Proxy) { p.Refuse(true); p.Cut() },
		Heal:  func(_ *redistest.Server, p *redistest.Proxy) { p.Refuse(false) },
	}, {
		Name: "cut into silence",
		Begin: func(_ *redistest.Server, p *redistest.Proxy) {
			before := p.Accepted()
			p.Stall(true)
			p.Cut()
			for p.Accepted() == before { // until the session has noticed, and dials in vain
				time.Sleep(time.Millisecond)
			}
		},
		Heal: func(_ *redistest.Server, p *redistest.Proxy) { p.Stall(false) },
	},
}

func command(s *redistest.Server, args ...string) {
	if _, err := s.Do(args...); err != nil {
		panic(err)
	}
}

// EachOutage runs f in a subtest for each outage, with a server that loses no data and
// a proxy.
func EachOutage(t *testing.T, f func(t *testing.T, s *redistest.Server, p *redistest.Proxy, begin, heal func())) {
	t.Helper()
	t.Parallel()
	for _, o := range Outages {
		t.Run(o.Name, func(t *testing.T) {
			t.Parallel()
			s, p := Proxied(t, EveryWrite...)
			f(t, s, p, func() { o.Begin(s, p) }, func() { o.Heal(s, p) })
		})
	}
}

// EveryWrite makes a server lose nothing that it has acknowledged.
var EveryWrite = []string{"--appendonly", "yes", "--appendfsync", "always"}
