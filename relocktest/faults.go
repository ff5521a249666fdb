package relocktest

import (
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
)

// Partition lets nothing pass between s and Redis, in either direction, until heal is called.
// Connections stay open, and what was sent meanwhile arrives after heal. No new connection is
// made. heal may be called again.
func (r *Redis) Partition(s *relock.Session) (heal func()) {
	r.t.Helper()
	return r.process(s).Cut()
}

// Disconnect breaks the connections of s. What is under way is lost. The session makes new
// connections when it needs them.
func (r *Redis) Disconnect(s *relock.Session) {
	r.t.Helper()
	r.process(s).Break()
}

// DropReplies lets Redis execute the next n commands of s and loses their replies. The connection
// breaks after that: at the latest when all n were executed, and earlier if s waits for
// one of these replies. In the latter case the rest of n applies to the next connection.
//
// Not counted are what a client sends to set up or watch a connection, subscriptions, messages
// that Redis pushes, and a script by a digest that Redis does not know.
func (r *Redis) DropReplies(s *relock.Session, n int) {
	r.t.Helper()
	r.process(s).DropReplies(n)
}

// Delay makes everything between s and Redis take d each way, messages of pub/sub too. What is
// under way keeps its delay, and nothing overtakes. 0 ends the delay.
func (r *Redis) Delay(s *relock.Session, d time.Duration) {
	r.t.Helper()
	r.process(s).Delay(d)
}

// Restart breaks every connection at the server's end. The server comes back at once, without
// the scripts it knew, and with keep or without its data.
func (r *Redis) Restart(keep bool) { r.server.Restart(keep) }

// StepClock makes the server's clock jump by d, ahead or back. Leases end at a time of that
// clock, so a jump ahead ends them early, and a jump back prolongs them.
func (r *Redis) StepClock(d time.Duration) { r.server.StepClock(d) }

// process returns the process of a session of r.
func (r *Redis) process(s *relock.Session) *memredis.Process {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.processes[s]
	if p == nil {
		r.t.Fatal("relocktest: the session is not one that Session of this Redis returned")
	}
	return p
}
