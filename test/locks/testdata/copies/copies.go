// Package copies copies what must not be copied. go vet must find each.
package copies

import "github.com/relock-go/relock"

func session(relock.Session)     {}
func mutex(relock.Mutex)         {}
func fairMutex(relock.FairMutex) {}
func rwMutex(relock.RWMutex)     {}
func group(relock.Group)         {}
func redlock(relock.Redlock)     {}

type account struct{ lock relock.Mutex }

func embedded(account) {}

func all(s *relock.Session, m *relock.Mutex, f *relock.FairMutex, rw *relock.RWMutex, g *relock.Group, r *relock.Redlock, a *account) {
	session(*s)
	mutex(*m)
	fairMutex(*f)
	rwMutex(*rw)
	group(*g)
	redlock(*r)
	embedded(*a)
}

var _ = all
