package quorum

import (
	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/pubsub"
)

// node is a Redlock's lock on one deployment.
type node struct{ *engine.Mutex }

// suspicion is how long a deployment stays suspect. After that the broker's pings have shown
// whether it answers.
const suspicion = 2 * pubsub.PingTimeout

// markSuspect marks a deployment that did not answer in time as unhealthy, for a while or until
// it answers. All Redlocks of the session know.
func (n *node) markSuspect() { n.Engine().Suspect.Store(n.Engine().Clock.Now() + int64(suspicion)) }

// clear ends the suspicion.
func (n *node) clear() {
	if suspect := &n.Engine().Suspect; suspect.Load() != 0 {
		suspect.Store(0)
	}
}

// healthy reports whether the deployment is likely to answer.
func (n *node) healthy() bool {
	e := n.Engine()
	return e.Clock.Now() >= e.Suspect.Load() && e.Connected() && !e.Closed()
}

// connected reports whether a majority of the deployments is connected.
func (r *Redlock) connected() bool {
	n := 0
	for _, node := range r.nodes {
		if e := node.Engine(); e.Connected() && !e.Closed() {
			n++
		}
	}
	return n >= r.quorum()
}

// candidates returns the deployments to ask: the healthy ones and, for later, the others. If the
// healthy ones are no majority it returns all.
func (r *Redlock) candidates() (healthy, others []int) {
	healthy = make([]int, 0, len(r.nodes))
	for i, n := range r.nodes {
		if n.healthy() {
			healthy = append(healthy, i)
		} else {
			others = append(others, i)
		}
	}
	if len(healthy) < r.quorum() {
		return append(healthy, others...), nil
	}
	return healthy, others
}
