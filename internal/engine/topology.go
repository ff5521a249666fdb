package engine

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/pubsub"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// What an engine finds out about its deployment when it starts. It requires scripts, the commands in
// them and pub/sub, and says which is missing. It works without the rest.

// publishText calls what most scripts call besides the commands for their keys.
const publishText = `redis.call('time') return redis.call('publish', ARGV[1], '')`

// check finds out what the server is, whether it answers, and whether it permits what the engine
// needs.
func (e *Engine) check(ctx context.Context) error {
	if ctx.Err() != nil {
		return lockerr.Ended("NewSession", "", ctx, nil)
	}
	err := e.primary(ctx)
	if err != nil {
		return started(ctx, err)
	}
	if err = e.commands(ctx); err != nil {
		return started(ctx, err)
	}
	if err = e.proto.CheckScripts(ctx); err != nil {
		return started(ctx, fmt.Errorf("running a script: %w", err))
	}
	if err = e.topology(ctx); err == nil {
		if err = e.proto.LearnScripts(ctx); err != nil {
			err = fmt.Errorf("running a script: %w", err)
		}
	}
	if err == nil && e.Config.Replicas > 0 {
		if err = e.waits(ctx); err == nil {
			err = e.replicated(ctx)
		}
	}
	return started(ctx, err)
}

// waits checks that the server has WAIT, which acknowledgements of replicas need. A server that
// has just become a replica refuses it, but may be the primary when it matters.
func (e *Engine) waits(ctx context.Context) error {
	err := e.proto.Inquire(ctx, "WAIT", "0", "0").Error()
	if _, ok := transport.Code(err); ok && !transport.Unsupported(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("waiting for replicas: %w", err)
	}
	return nil
}

// channels subscribes to the session's own channel. silent is why a script cannot publish;
// channels returns it only if subscribing succeeds.
func (e *Engine) channels(ctx context.Context, silent error) error {
	err := e.broker.Pin(ctx, wire.PrefixSession+e.id, e.queue.Resubscribed)
	if err != nil && ctx.Err() != nil && e.proto.Spent.Load() {
		err = transport.ErrPool
	}
	switch {
	case err != nil:
		err = fmt.Errorf("subscribing to %s*: %w", wire.PrefixSession, err)
	case silent != nil:
		err = fmt.Errorf("publishing to %s* in a script: %w", wire.PrefixSession, silent)
	case e.Config.Replicas > 0:
		err = e.waits(ctx) // again: it needs a connection beside that of the channels
	}
	return started(ctx, err)
}

// started wraps err as an error of NewSession.
func started(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return lockerr.Ended("NewSession", "", ctx, err)
	}
	return lockerr.New("NewSession", "", err)
}

// topology prepares for Sentinel or a cluster. In a cluster Redisson publishes lock messages to
// shards if the server has sharded pub/sub. relock must do the same: PUBLISH and SPUBLISH do not
// reach each other's subscribers.
func (e *Engine) topology(ctx context.Context) error {
	p := e.proto
	e.deployment = deploymentOf(ctx, p)
	switch p.Client.Mode() {
	case rueidis.ClientModeSentinel:
		return nil
	case rueidis.ClientModeStandalone:
		// A primary may become a replica later. A replica that is not read-only is accepted
		// as it is.
		reply, err := p.Settled(ctx, "ROLE").ToArray()
		if _, refused := transport.Code(err); err != nil && !refused {
			return fmt.Errorf("asking for the role: %w", err)
		}
		e.broker.NoRole.Store(transport.Unsupported(err) || err == nil && !pubsub.IsPrimary(reply))
		return nil
	}
	p.Slots = transport.NewSlotMap(p.Conn, e.slotsChanged)
	p.Slots.Look(ctx)
	p.PubSub = wire.ClusterWide
	switch err := p.Settled(ctx, "PUBSUB", "SHARDNUMSUB").Error(); {
	case transport.Unsupported(err):
		return nil
	case err != nil:
		return fmt.Errorf("asking for sharded pub/sub: %w", err)
	}
	p.PubSub = wire.Sharded
	e.broker.Shards = func(channel string) bool { return !wire.IsSessionChannel(channel) }
	return e.shards(ctx)
}

// slotsChanged is called when slots have moved to other nodes: requests that wait for a round of
// one node may belong to another now.
func (e *Engine) slotsChanged() {
	e.watchdog.Wake()
	e.queue.Wake()
	e.cleaner.Wake()
}

// shards checks that sharded messages may be published and subscribed to. Any node will do: one
// that does not own the channel refuses only after it has checked the permission.
func (e *Engine) shards(ctx context.Context) error {
	p, channel := e.proto, wire.PrefixSession+e.id
	for _, step := range []struct {
		what string
		cmd  rueidis.Completed
	}{
		{"publishing to shards: ", p.Client.B().Spublish().Channel(channel).Message("").Build()},
		{"subscribing to shards: ", p.Client.B().Ssubscribe().Channel(channel).Build()},
	} {
		cmd := step.cmd.Pin()
		err := p.AnyNode(ctx, func(ctx context.Context, node rueidis.Client) rueidis.RedisResult {
			return p.Once(ctx, node, cmd)
		}).Error()
		if transport.Unsupported(err) {
			return fmt.Errorf(step.what+"%w", err)
		}
	}
	return nil
}

// deploymentOf identifies the deployment by the run id of the server, or by the least node id of
// the cluster. If the server reveals neither, engines of one client still agree.
func deploymentOf(ctx context.Context, p *wire.Protocol) string {
	question, field := []string{"INFO", "server"}, "run_id:"
	if p.Client.Mode() == rueidis.ClientModeCluster {
		question, field = []string{"CLUSTER", "NODES"}, ""
	}
	text, _ := p.Settled(ctx, question...).ToString()
	least := ""
	for line := range strings.Lines(text) {
		id, ok := strings.CutPrefix(line, field)
		id, _, _ = strings.Cut(strings.TrimSpace(id), " ")
		if ok && (least == "" || id < least) {
			least = id
		}
	}
	if least == "" {
		return fmt.Sprintf("client %p", p.Client)
	}
	return least
}
