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
	"github.com/relock-go/relock/internal/wire"
)

// What an engine finds out about its deployment when it starts. It requires a primary with as many replicas
// as acquisitions are to wait for, scripts, the commands in them and pub/sub, and says which is missing. It
// works without the rest. What a server does not tell, because it does not know INFO or its user may not
// ask, is taken to be right.

// Start checks what the server is and what it permits, and starts the engine's goroutines.
func (e *Engine) Start(ctx context.Context) error {
	if e.proto.Client.Mode() != rueidis.ClientModeCluster {
		e.own.Go(func() { e.proto.Watch(e.ioCtx) })
	}
	err := e.check(ctx)
	if err == nil {
		err = e.run(ctx)
	}
	if err != nil {
		_ = e.Close(ctx)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return lockerr.Ended("NewSession", "", ctx, err)
	case err != nil:
		return lockerr.New("NewSession", "", err)
	}
	if e.Config.Label != "" && e.writeLabel(ctx) {
		e.own.Go(e.keepLabel)
	}
	return nil
}

// check finds out what the server is, whether it answers, and whether it permits what the engine
// needs.
func (e *Engine) check(ctx context.Context) error {
	type step = func(context.Context) error
	running := func(check step) step {
		return func(ctx context.Context) error { return wrap("running a script", check(ctx)) }
	}
	steps := []step{e.primary, e.single, e.commands, running(e.proto.CheckScripts), e.topology, running(e.proto.LearnScripts)}
	err := ctx.Err()
	for i := 0; i < len(steps) && err == nil; i++ {
		err = steps[i](ctx)
	}
	return err
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// publishText calls what most scripts call besides the commands for their keys.
const publishText = `redis.call('time') return redis.call('publish', ARGV[1], '')`

// run starts the goroutines, and subscribes to the session's own channel. Then it checks that a script may publish
// to that.
func (e *Engine) run(ctx context.Context) error {
	silent := e.proto.Inquire(ctx, "EVAL", publishText, "0", wire.PrefixSession+e.id).Error()
	if e.proto.Slots != nil {
		e.own.Go(func() { e.proto.Slots.Run(e.ioCtx) })
	}
	for _, run := range []func(){e.watchdog.Run, e.watchdog.RunRenewals, e.cleaner.Run, e.queue.Run, e.keeper.run} {
		e.own.Go(run)
	}
	err := e.broker.Pin(ctx, wire.PrefixSession+e.id, func(live bool) {
		e.queue.Resubscribed()
		e.keeper.subscribed(live)
	})
	switch {
	case err != nil && ctx.Err() != nil && e.proto.Spent.Load():
		return wrap("subscribing to "+wire.PrefixSession+"*", transport.ErrPool)
	case err != nil:
		return wrap("subscribing to "+wire.PrefixSession+"*", err)
	case silent != nil:
		return wrap("publishing to "+wire.PrefixSession+"* in a script", silent)
	}
	return e.replicated(ctx)
}

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

// primary waits while the server fails over, and returns an error if it is a read-only replica
// otherwise. Through Sentinel a replica is always one that was the primary until now.
func (e *Engine) primary(ctx context.Context) error {
	p := e.proto
	if p.Client.Mode() == rueidis.ClientModeCluster {
		return nil // the client goes to primaries
	}
	var last error // why it waits
	since := time.Now()
	for backoff := timing.MinBackoff; ; backoff = min(2*backoff, timing.MaxBackoff) {
		text, err := p.Settled(ctx, "INFO", "replication").ToString()
		if _, answered := transport.Code(err); err == nil || answered {
			var passes bool
			passes, last = readReplication(text).obstacle()
			switch {
			case last == nil:
				return nil
			case last == errReadOnly && p.Elsewhere(ctx):
				continue
			case passes:
				since = time.Now()
			default:
				if err := refused(p.Client.Mode(), since, last); err != nil {
					return err
				}
			}
		} else if last == nil {
			return fmt.Errorf("asking for the role: %w", err)
		}
		if ctx.Err() != nil {
			return last
		}
		timing.Pause(ctx, timing.Jitter(backoff))
	}
}

// replicated checks that replicas acknowledge as they must for an acquisition, in a cluster those of one primary. A
// server that has just become a replica refuses WAIT, but may be the primary when it matters.
func (e *Engine) replicated(ctx context.Context) error {
	if e.Config.Replicas == 0 {
		return nil
	}
	_, err := e.proto.EvalWait(ctx, &transport.Script{Text: "return 1"}, nil, nil)
	if errors.As(err, new(*transport.ReplicaError)) {
		return fmt.Errorf("%w: WithReplicas(%d, %v): %w", lockerr.ErrOption, e.Config.Replicas, e.Config.AckWait, err)
	}
	if _, ok := transport.Code(err); ok && !transport.Unsupported(err) {
		return nil
	}
	return wrap("waiting for replicas", err)
}

// tried are the commands of the scripts, each with arguments by which it changes nothing: it reads a
// key that does not exist, or is refused for its last argument. KEY is a key of the session's own.
// Two that relock can do without are missing: PUBSUB and HRANDFIELD. So is PUBLISH, which is tried
// on its own.
var tried = []string{
	"time", "exists KEY", "pttl KEY", "pexpire KEY 1", "pexpireat KEY 1", "get KEY", "set KEY 1 px 0", "del KEY",
	"hset KEY 1 1 1", "hget KEY 1", "hdel KEY 1", "hlen KEY", "hkeys KEY", "hexists KEY 1", "hgetall KEY", "zadd KEY x 1",
	"zrem KEY 1", "zcard KEY", "zscore KEY 1", "zrange KEY 0 0", "zrangebyscore KEY 0 0", "zcount KEY 0 0",
	"zremrangebyrank KEY 0 0", "zremrangebyscore KEY 0 0", "lindex KEY 0",
}

// triedText returns those commands that the user may not run in a script. Redis finds that out before
// it looks at the keys, and says it in words that differ between versions. KEYS stays empty, since a
// user need not have the right to KEY.
const triedText = `--!df flags=allow-undeclared-keys
local lacking = {}
for i = 2, #ARGV do
  local words = {}
  for word in string.gmatch(ARGV[i], '%S+') do words[#words + 1] = word == 'KEY' and ARGV[1] or word end
  local reply = redis.pcall(unpack(words))
  local err = type(reply) == 'table' and reply.err or ''
  if string.find(err, "can't run this command", 1, true) or string.find(err, 'no permissions to run', 1, true) then
    lacking[#lacking + 1] = words[1]
  end
end
return lacking`

// commands checks that the user may run every command of the scripts. A script that lacks one may
// fail half-way: a release would leave the lock taken until its lease ends.
func (e *Engine) commands(ctx context.Context) error {
	args := append([]string{"EVAL", triedText, "0", wire.PrefixSession + "{" + e.id + "}:tried"}, tried...)
	lacking, err := e.proto.Inquire(ctx, args...).AsStrSlice()
	if _, refused := transport.Code(err); refused { // no scripts, as CheckScripts will find
		return nil
	}
	if err == nil && len(lacking) > 0 {
		err = fmt.Errorf("this Redis user may not run %s in scripts: give it +%s with ACL SETUSER; docs/operating.md has the whole rule",
			strings.Join(lacking, ", "), strings.Join(lacking, " +"))
	}
	return err
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
		p.AnyRole = err == nil && !transport.IsPrimary(reply)
		return nil
	}
	p.Slots = transport.NewSlotMap(p.Conn, func() { // what waits for a round of one node may belong to another now
		e.watchdog.Wake()
		e.queue.Wake()
		e.cleaner.Wake()
	})
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

// shards checks that sharded messages may be published and subscribed to. Any node will do: one
// that does not own the channel refuses only after it has checked the permission.
func (e *Engine) shards(ctx context.Context) error {
	p, channel := e.proto, wire.PrefixSession+e.id
	for what, cmd := range map[string]rueidis.Completed{
		"publishing to shards":  p.Client.B().Spublish().Channel(channel).Message("").Build().Pin(),
		"subscribing to shards": p.Client.B().Ssubscribe().Channel(channel).Build().Pin(),
	} {
		err := p.AnyNode(ctx, func(ctx context.Context, addr string, _ rueidis.Client) rueidis.RedisResult {
			return p.Once(ctx, addr, cmd)
		}).Error()
		if transport.Unsupported(err) || errors.Is(err, transport.ErrPool) {
			return wrap(what, err)
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
