package relock

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/rueidis"
)

// What a session finds out about its deployment when it starts. It needs scripts and
// pub/sub, and says so if they are missing. Without the rest it works as well.

// publishText does what most scripts do besides the commands for their keys.
const publishText = `redis.call('time') return redis.call('publish', ARGV[1], '')`

// check finds out what the server is, whether it answers, and whether it can do what is
// asked of it.
func (s *Session) check(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctxFailed("NewSession", "", ctx, nil)
	}
	err := s.scripts(ctx)
	if err == nil {
		err = s.topology(ctx)
	}
	if err == nil && s.cfg.replicas > 0 {
		err = s.waits(ctx)
	}
	return started(ctx, err)
}

// scripts finds out whether the server runs scripts, in both ways. It runs that of
// renewals, for no holds, so that the first renewal need not send it.
func (s *Session) scripts(ctx context.Context) error {
	err := s.proto.do(noDeadline{ctx}, s.proto.aside("EVAL", renewScript.text, "0", "1")).Error()
	if err == nil {
		err = s.proto.do(noDeadline{ctx}, s.proto.aside("EVALSHA", renewScript.sha, "0", "1")).Error()
		if code, _ := redisError(err); code == "NOSCRIPT" { // another node, or forgotten already
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("running a script: %w", err)
	}
	return nil
}

// waits finds out whether WithReplicas has the command it needs. A replica refuses it,
// too, but may be a primary when it matters.
func (s *Session) waits(ctx context.Context) error {
	err := s.proto.do(noDeadline{ctx}, s.proto.aside("WAIT", "0", "0")).Error()
	if code, ok := redisError(err); ok && code != "NOPERM" && code != "unknown" {
		return nil
	}
	if err != nil {
		return fmt.Errorf("waiting for replicas: %w", err)
	}
	return nil
}

// channels subscribes the session's own channel. silent is why a script cannot publish,
// if it cannot: it is told if the channel can be subscribed all the same.
func (s *Session) channels(ctx context.Context, silent error) error {
	err := s.hub.pin(ctx, prefixSession+s.id)
	switch {
	case err != nil:
		err = fmt.Errorf("subscribing to %s*: %w", prefixSession, err)
	case silent != nil:
		err = fmt.Errorf("publishing to %s* in a script: %w", prefixSession, silent)
	}
	return started(ctx, err)
}

// publish finds out whether a script can publish.
func (s *Session) publish(ctx context.Context) error {
	return s.proto.do(noDeadline{ctx}, s.proto.aside("EVAL", publishText, "0", prefixSession+s.id)).Error()
}

// started returns the error of NewSession for err.
func started(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctxFailed("NewSession", "", ctx, err)
	}
	return failed("NewSession", "", err)
}

// topology sets up for a cluster. There Redisson publishes lock messages to shards
// exactly if the server can do that, and so does relock: PUBLISH and SPUBLISH do not
// reach each other.
func (s *Session) topology(ctx context.Context) error {
	p := s.proto
	s.place = deploymentOf(ctx, p)
	switch p.client.Mode() {
	case rueidis.ClientModeSentinel:
		return nil
	case rueidis.ClientModeStandalone:
		// A primary today may be a replica tomorrow. What is a replica now is taken as
		// it is.
		reply, err := p.do(noDeadline{ctx}, p.aside("ROLE")).ToArray()
		s.hub.noRole.Store(err != nil || !isPrimary(reply))
		return nil
	}
	p.cluster, s.hub.cluster = true, true
	p.atlas = &atlas{client: p.client, send: p.ask, kick: make(chan struct{}, 1)}
	s.hub.atlas = p.atlas
	p.atlas.look(ctx)
	p.counted = "0" // PUBLISH counts the subscribers of one node
	err := p.do(noDeadline{ctx}, p.aside("PUBSUB", "SHARDNUMSUB")).Error()
	if _, refused := redisError(err); err != nil && !refused {
		return fmt.Errorf("asking for sharded pub/sub: %w", err)
	}
	if err != nil {
		return nil
	}
	p.publish, p.counted = "SPUBLISH", "1"
	s.hub.sharded = true
	return s.shards(ctx)
}

// shards finds out whether sharded messages may be sent and subscribed, where Redisson
// would use them. Any node will do: one that does not have the channel refuses that
// after it has looked at the permission. Nodes that do not answer are passed over.
func (s *Session) shards(ctx context.Context) error {
	p, channel := s.proto, prefixSession+s.id
	for _, step := range []struct {
		what string
		cmd  rueidis.Completed
	}{
		{"publishing to shards: ", p.client.B().Spublish().Channel(channel).Message("").Build()},
		{"subscribing to shards: ", p.client.B().Ssubscribe().Channel(channel).Build()},
	} {
		for _, node := range p.client.Nodes() {
			err := p.once(noDeadline{ctx}, node, step.cmd.Pin())
			code, refused := redisError(err)
			if code == "NOPERM" || code == "unknown" {
				return fmt.Errorf(step.what+"%w", err)
			}
			if err == nil || refused || ctx.Err() != nil {
				break
			}
		}
	}
	return nil
}

// once sends one command on a connection that is closed afterwards.
func (p *protocol) once(ctx context.Context, node rueidis.Client, cmd rueidis.Completed) error {
	return p.detached(ctx, func(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
		conn, put := node.Dedicate()
		rs := conn.DoMulti(ctx, cmds...)
		p.wg.Go(func() { // takes a moment
			conn.Close()
			put()
		})
		return rs
	}, rueidis.Commands{cmd})[0].Error()
}

// deploymentOf returns something that tells deployments apart: the run id of the
// server, or the least node id of the cluster; if the server does not say, sessions of
// one client at least have it in common.
func deploymentOf(ctx context.Context, p *protocol) string {
	cmd, field := p.aside("INFO", "server"), "run_id:"
	if p.client.Mode() == rueidis.ClientModeCluster {
		cmd, field = p.aside("CLUSTER", "NODES"), ""
	}
	text, _ := p.do(noDeadline{ctx}, cmd).ToString()
	least := ""
	for line := range strings.Lines(text) {
		id, ok := strings.CutPrefix(line, field)
		id, _, _ = strings.Cut(strings.TrimSpace(id), " ")
		if ok && (least == "" || id < least) {
			least = id
		}
	}
	if least == "" {
		return fmt.Sprintf("client %p", p.client)
	}
	return least
}

// aside returns a command for a connection of rueidis's pool, so that its context, which
// may be cancelled, changes nothing for the shared one; see patience.
func (p *protocol) aside(words ...string) rueidis.Completed {
	return p.client.B().Arbitrary(words...).Blocking()
}
