package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// What a session finds out about its deployment when it starts. It requires a primary with as many
// replicas as acquisitions are to wait for, scripts, the commands in them and pub/sub, and says
// which is missing. It works without the rest. What a server does not tell, because it does not
// know INFO or its user may not ask, is taken to be right.
//
// All that can be asked at once is asked in one round trip (inquire). When that has gone well the
// goroutines start, and subscribe (run). Both may be done again, until they go well: Start does so
// while the server says that it is not ready; startLater, in the background, whatever was found.
// Then calls may ask Redis, and see what was found.

// Start checks what the server is and what it permits, and starts the session's goroutines; or if
// that is to be done in the background, begins it and returns nil.
func (s *Session) Start(ctx context.Context) error {
	if !s.inCluster() {
		s.own.Go(func() { s.Proto.Watch(s.ioCtx) })
	}
	if s.Config.Background {
		s.own.Go(func() { s.startLater(s.Draining) })
		return nil
	}
	err := s.check(ctx)
	if err == nil {
		err = s.run(ctx)
	}
	if err != nil {
		_ = s.Close(ctx)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return lockerr.Unavailable("NewSession", "", ctx, err)
	case err != nil:
		err = s.Proto.WhyClosed(ctx, err)
		if transport.Unreached(err) {
			return lockerr.New("NewSession", "", lockerr.ErrUnavailable, err)
		}
		return lockerr.New("NewSession", "", err)
	}
	s.started(ctx)
	return nil
}

// started lets calls ask Redis.
func (s *Session) started(ctx context.Context) {
	s.Proto.Started()
	if s.Config.Label != "" && s.writeLabel(ctx) {
		s.own.Go(s.keepLabel)
	}
}

// startLater starts the session, with as many attempts as it takes, until ctx ends. What each has
// found is what calls return, or wait for, until the next one has ended.
func (s *Session) startLater(ctx context.Context) {
	since, checked := time.Now(), false
	for backoff := timing.MinBackoff; ; backoff = min(2*backoff, timing.MaxBackoff) {
		var found outcome
		var err error
		if !checked {
			found, err = s.inquire(ctx, &since)
			checked = err == nil
		}
		passes := found != refuses
		if checked {
			err = s.run(ctx)
			passes = transport.Transient(err)
		}
		if err != nil {
			err = s.Proto.WhyClosed(ctx, err)
		}
		switch {
		case ctx.Err() != nil:
			s.Proto.Unstarted(lockerr.ErrClosed, false)
			return
		case err == nil:
			s.started(ctx)
			return
		}
		s.Proto.Unstarted(err, passes)
		timing.Pause(ctx, timing.Jitter(backoff))
	}
}

// check finds out what the server is, whether it answers, and whether it permits what the session
// needs. It waits while the server says that it is not ready, and then returns the last that it
// said.
func (s *Session) check(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var last error // why it waits
	since := time.Now()
	for backoff := timing.MinBackoff; ; backoff = min(2*backoff, timing.MaxBackoff) {
		found, err := s.inquire(ctx, &since)
		switch {
		case err == nil, found == refuses, found == silent && last == nil:
			return err
		case found == unready:
			last = err
		}
		if ctx.Err() != nil {
			return last
		}
		timing.Pause(ctx, timing.Jitter(backoff))
	}
}

// An outcome is that of asking a server that cannot be used now.
type outcome uint8

const (
	refuses outcome = iota // somebody must act
	unready                // the server says that it is not ready
	silent                 // it does not answer
)

// inquire asks once what the server is and permits. It returns nil if it may be used. since is when
// a failover was under way last.
func (s *Session) inquire(ctx context.Context, since *time.Time) (outcome, error) {
	sent := s.Clock.Now()
	answers, err := s.Proto.Inquire(ctx, s.questions()...)
	if err != nil {
		if said := transport.NotReady(err); said != nil {
			return unready, said
		}
		return unanswered(s.unanswered(err, sent))
	}
	switch passes, err := s.obstacle(answers); {
	case err == nil:
		return unanswered(s.topology(ctx, answers))
	case err == errReadOnly && s.Proto.Elsewhere(ctx):
		return s.inquire(ctx, since)
	case passes:
		*since = time.Now()
		return unready, err
	case err == errReadOnly:
		if why := refused(s.Proto.Client.Mode(), *since, err); why != nil {
			return refuses, why
		}
		return unready, err
	default:
		return refuses, err
	}
}

// unanswered returns the outcome of questions that have failed with err.
func unanswered(err error) (outcome, error) {
	if err != nil && transport.Transient(err) {
		return silent, err
	}
	return refuses, err
}

// unanswered is transport.Unanswered, unless the client had no connection to send the question on.
func (s *Session) unanswered(err error, sent int64) error {
	if errors.Is(err, transport.ErrPool) {
		return err
	}
	return transport.Unanswered(err, time.Duration(s.Clock.Now()-sent))
}

// The questions of check, in the order in which they are sent.
const (
	askPing        = iota // which the client needs
	askReplication        // what the server is
	askIdentity           // which it is; in a cluster, which nodes there are
	askRole               // whether it tells its role; in a cluster, whether pub/sub is sharded
	askByText
	askByDigest
	askCommands
	askPublish
	askCluster // whether it is a node of one; in a cluster, whether it may publish to shards
	askKeys    // whether a script may have several keys
	askMore    // digests of scripts that are not known
)

// publishText calls what most scripts call besides the commands for their keys.
const publishText = `redis.call('time') return redis.call('publish', ARGV[1], '')`

func (s *Session) questions() [][]string {
	channel := wire.PrefixSession + s.ID
	byText, byDigest := s.Proto.TryScripts()
	all := [][]string{
		askPing:        {"PING"},
		askReplication: {"INFO", "replication"},
		askIdentity:    {"INFO", "server"},
		askRole:        {"ROLE"},
		askByText:      byText,
		askByDigest:    byDigest,
		askCommands:    s.tryCommands(),
		askPublish:     {"EVAL", publishText, "0", channel},
		askCluster:     {"CLUSTER", "INFO"},
		askKeys:        s.trySeveralKeys(),
	}
	if s.inCluster() {
		all[askIdentity] = []string{"CLUSTER", "NODES"}
		all[askRole] = []string{"PUBSUB", "SHARDNUMSUB"}
		all[askCluster] = []string{"SPUBLISH", channel, ""}
		return all
	}
	if digests := transport.DigestsQuestion(s.Proto.Scripts()); digests != nil {
		all = append(all, digests)
	}
	return all
}

func (s *Session) inCluster() bool { return s.Proto.Client.Mode() == rueidis.ClientModeCluster }

// obstacle returns why a session must not start on the server that has given the answers, and
// whether that may pass soon.
func (s *Session) obstacle(answers []rueidis.RedisResult) (passes bool, err error) {
	if !s.inCluster() { // whose client goes to primaries
		text, _ := answers[askReplication].ToString()
		if passes, err = readReplication(text).obstacle(); err != nil {
			return passes, err
		}
		if s.Proto.Client.Mode() == rueidis.ClientModeStandalone {
			if err := single(answers[askCluster]); err != nil {
				return false, err
			}
		}
	}
	for i, r := range answers[:askCluster] {
		err := r.Error()
		if _, refused := transport.Code(err); refused && transport.Transient(err) && i != askPing {
			return true, err // a server that cannot save refuses PING, and does what the others ask
		}
	}
	if err := answers[askPing].Error(); forGood(err) {
		return false, wrap("sending PING, which the client needs", err)
	}
	if err := answers[askByText].Error(); err != nil && !wantsKeys(err) {
		return false, wrap("running a script", plainly(err))
	}
	err = answers[askByDigest].Error()
	if code, _ := transport.Code(err); err != nil && code != "NOSCRIPT" {
		return false, wrap("running a script by its digest", plainly(err))
	}
	if err := ofSeveralKeys(answers[askKeys]); err != nil {
		return false, wrap("running a script with several keys", err)
	}
	if err := lacking(answers[askCommands]); err != nil {
		return err == errDown, wrap("trying the commands of the scripts", err)
	}
	if err := answers[askPublish].Error(); !wantsKeys(err) {
		return false, wrap("publishing to "+wire.PrefixSession+"* in a script", err)
	}
	return false, nil
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

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

var (
	errReadOnly = errors.New("the server is a read-only replica; connect to its primary, or through Sentinel")
	errFailover = errors.New("a failover is under way")
)

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

// run starts the goroutines, and subscribes to the session's own channel. Called again it waits
// again for what has failed.
func (s *Session) run(ctx context.Context) error {
	if s.subscribed == nil {
		s.runAll()
	}
	sent := s.Clock.Now()
	err := s.subscribed(ctx)
	if err != nil && ctx.Err() != nil && s.Proto.Spent.Load() {
		err = transport.ErrPool
	}
	if err != nil {
		return wrap("subscribing to "+wire.PrefixSession+"*", plainly(s.unanswered(err, sent)))
	}
	return s.replicated(ctx) // which needs a connection beside that of the subscription
}

// runAll starts the goroutines, and begins to subscribe.
func (s *Session) runAll() {
	if s.Proto.Slots != nil {
		s.own.Go(func() { s.Proto.Slots.Run(s.ioCtx) })
	}
	for _, run := range []func(){s.Watchdog.Run, s.Watchdog.RunRenewals, s.Cleaner.Run, s.Queue.Run} {
		s.own.Go(run)
	}
	s.own.Go(func() { s.Keeper.Run(s.ioCtx.Done()) })
	s.subscribed = s.broker.Pin(wire.PrefixSession+s.ID, func(live bool) {
		s.Queue.Resubscribed()
		s.Heard(live)
	})
}

// replicated checks that replicas acknowledge as they must for an acquisition, in a cluster those
// of one primary. A server that has just become a replica refuses WAIT, but may be the primary when
// it matters.
func (s *Session) replicated(ctx context.Context) error {
	if s.Config.Replicas == 0 {
		return nil
	}
	_, err := s.Proto.EvalWait(ctx, &transport.Script{Text: "return 1"}, nil, nil)
	if errors.As(err, new(*transport.ReplicaError)) {
		return fmt.Errorf("WithReplicas(%d, %v): %w", s.Config.Replicas, s.Config.AckWait, err)
	}
	if _, ok := transport.Code(err); ok && !transport.Unsupported(err) {
		return nil
	}
	return wrap("waiting for replicas", err)
}

// topology prepares for Sentinel or a cluster. In a cluster Redisson publishes lock messages to
// shards if the server has sharded pub/sub. relock must do the same: PUBLISH and SPUBLISH do not
// reach each other's subscribers.
func (s *Session) topology(ctx context.Context, answers []rueidis.RedisResult) error {
	p := s.Proto
	s.SetDeployment(s.deploymentOf(answers[askIdentity]))
	if s.inCluster() {
		return s.cluster(ctx, answers)
	}
	if len(answers) > askMore {
		transport.LearnDigests(p.Scripts(), answers[askMore])
	}
	if p.Client.Mode() == rueidis.ClientModeStandalone {
		// A primary may become a replica later. A replica that is not read-only is accepted
		// as it is.
		role, err := answers[askRole].ToArray()
		p.AnyRole.Store(err == nil && !transport.IsPrimary(role))
	}
	return nil
}

// cluster finds out, at the same time, who has which slots, what the scripts are called, and
// whether sharded messages may be subscribed to.
func (s *Session) cluster(ctx context.Context, answers []rueidis.RedisResult) error {
	p := s.Proto
	if p.Slots == nil {
		// What waits for a round of one node may belong to another after a change.
		p.Slots = transport.NewSlotMap(p.Conn, func() {
			s.Watchdog.Wake()
			s.Queue.Wake()
			s.Cleaner.Wake()
		})
	}
	p.PubSub = wire.Sharded
	switch err := answers[askRole].Error(); {
	case transport.Unsupported(err):
		p.PubSub = wire.ClusterWide
	case err != nil:
		return fmt.Errorf("asking for sharded pub/sub: %w", err)
	}
	var digests, deaf error
	var wg sync.WaitGroup
	wg.Go(func() { p.Slots.Look(ctx) })
	wg.Go(func() { digests = s.learnDigests(ctx) })
	if p.PubSub == wire.Sharded {
		// Any node will do: one that does not own the channel refuses only after it has checked the
		// permission.
		if err := answers[askCluster].Error(); forGood(err) {
			deaf = wrap("publishing to shards", err)
		} else {
			wg.Go(func() { deaf = s.subscribeShard(ctx) })
		}
		s.broker.Shards = func(channel string) bool { return !wire.IsSessionChannel(channel) }
	}
	wg.Wait()
	if deaf != nil {
		return deaf
	}
	return digests
}

// forGood reports whether err is a refusal that does not pass.
func forGood(err error) bool {
	_, refused := transport.Code(err)
	return refused && !transport.Transient(err)
}

// subscribeShard checks that sharded messages may be subscribed to.
func (s *Session) subscribeShard(ctx context.Context) error {
	p := s.Proto
	cmd := p.Client.B().Ssubscribe().Channel(wire.PrefixSession + s.ID).Build().Pin()
	err := p.AnyNode(ctx, func(ctx context.Context, addr string, _ rueidis.Client) []rueidis.RedisResult {
		return []rueidis.RedisResult{p.Once(ctx, addr, cmd)}
	})[0].Error()
	if forGood(err) || errors.Is(err, transport.ErrPool) {
		return wrap("subscribing to shards", err)
	}
	return nil
}

// learnDigests asks any node for the digests of the scripts that are not known.
func (s *Session) learnDigests(ctx context.Context) error {
	scripts := s.Proto.Scripts()
	question := transport.DigestsQuestion(scripts)
	if question == nil {
		return nil
	}
	answers, err := s.Proto.Inquire(ctx, question)
	if err == nil {
		transport.LearnDigests(scripts, answers[0])
	}
	return err
}

// deploymentOf identifies the deployment by the run id of the server, or by the least node id of
// the cluster. If the server reveals neither, sessions of one client still agree.
func (s *Session) deploymentOf(identity rueidis.RedisResult) string {
	field := "run_id:"
	if s.inCluster() {
		field = ""
	}
	text, _ := identity.ToString()
	least := ""
	for line := range strings.Lines(text) {
		id, ok := strings.CutPrefix(line, field)
		id, _, _ = strings.Cut(strings.TrimSpace(id), " ")
		if ok && (least == "" || id < least) {
			least = id
		}
	}
	if least == "" {
		return fmt.Sprintf("client %p", s.Proto.Client)
	}
	return least
}
