package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
)

// Which servers a session may start on: a primary with as many replicas as acquisitions are to wait
// for. What a server does not tell, because it does not know INFO or its user may not ask, is
// taken to be right.

var (
	errReadOnly = errors.New("the server is a read-only replica; connect to its primary, or through Sentinel")
	errFailover = errors.New("a failover is under way")
)

// replication is the section of INFO of that name.
type replication map[string]string

func readReplication(text string) replication {
	r := make(replication)
	for line := range strings.Lines(text) {
		if field, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			r[field] = value
		}
	}
	return r
}

// obstacle returns why a session must not start on the server, and whether that may pass soon,
// because a failover is under way.
func (r replication) obstacle() (passes bool, err error) {
	switch state := r["master_failover_state"]; {
	case r["role"] == "slave" && r["slave_read_only"] != "0":
		return r["master_link_status"] != "up", errReadOnly
	case state != "" && state != "no-failover":
		return true, errFailover
	}
	return false, nil
}

// replicas returns how many replicas are connected and in step.
func (r replication) replicas() (n int) {
	for field, value := range r {
		if strings.HasPrefix(field, "slave") && strings.Contains(value, "state=online") {
			n++
		}
	}
	return n
}

// primary waits while the server fails over, and returns an error if it is a read-only replica
// otherwise. Through Sentinel a replica is always one that was the primary until now.
func (e *Engine) primary(ctx context.Context) error {
	p := e.proto
	if p.Client.Mode() == rueidis.ClientModeCluster {
		return nil // the client goes to primaries
	}
	var last error // why it waits
	for backoff := timing.MinBackoff; ; backoff = min(2*backoff, timing.MaxBackoff) {
		text, err := p.Settled(ctx, "INFO", "replication").ToString()
		_, refused := transport.Code(err)
		switch answered := err == nil || refused; {
		case !answered && last == nil:
			return fmt.Errorf("asking for the role: %w", err)
		case answered:
			var passes bool
			passes, last = readReplication(text).obstacle()
			if last == nil || !passes && p.Client.Mode() != rueidis.ClientModeSentinel {
				return last
			}
		}
		if ctx.Err() != nil {
			return last
		}
		timing.Pause(ctx, timing.Jitter(backoff))
	}
}

// replicated returns an error if a primary has fewer replicas than acquisitions are to wait for. It
// gives those that are missing as long to connect as an acquisition would.
func (e *Engine) replicated(ctx context.Context) error {
	want, wait := e.Config.Replicas, e.Config.AckWait
	end := time.Now().Add(wait)
	for backoff := timing.MinBackoff; ; backoff = min(2*backoff, timing.MaxBackoff) {
		at, has := e.fewestReplicas(ctx)
		if has >= want || ctx.Err() != nil {
			return nil // ctx ends the next step
		}
		if time.Now().After(end) {
			return fmt.Errorf("%w: WithReplicas(%d, %v): %s has %d connected", lockerr.ErrOption, want, wait, at, has)
		}
		timing.Pause(ctx, min(timing.Jitter(backoff), time.Until(end)))
	}
}

// fewestReplicas returns the primary that has the fewest replicas, and their number.
func (e *Engine) fewestReplicas(ctx context.Context) (at string, has int) {
	p, has := e.proto, e.Config.Replicas
	if p.Slots == nil {
		text, err := p.Settled(ctx, "INFO", "replication").ToString()
		if r := readReplication(text); err == nil && r["role"] == "master" {
			has = r.replicas()
		}
		return "the primary", has
	}
	nodes := p.Client.Nodes()
	for _, addr := range p.Slots.Primaries() {
		node := nodes[addr]
		if node == nil {
			continue
		}
		r, err := p.InquireAt(ctx, node, "INFO", "replication").ToString()
		if n := readReplication(r).replicas(); err == nil && n < has {
			at, has = "the primary at "+addr, n
		}
	}
	return at, has
}
