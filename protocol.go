package relock

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// protocol sends scripts: one function each, arguments in, typed result out. It
// neither retries nor waits.
//
// Outside a cluster commands are built without their keys being named to rueidis:
// it then sends them all on one connection, in order, instead of on one of several
// at random. So what is sent later is executed later, and a release that follows a
// cancelled acquire cannot overtake it.
type protocol struct {
	client  rueidis.Client
	cluster bool
	publish string        // PUBLISH or SPUBLISH, for the channels of locks
	counted string        // 1 if its reply counts every subscriber, else 0
	claim   time.Duration // of a waiter of a FairMutex that this session gives the lock to

	up     *atomic.Bool    // the server answers on the subscription connection
	doubt  atomic.Bool     // the last call got no answer
	direct atomic.Int32    // calls under way that wait in the client
	wg     *sync.WaitGroup // of the goroutines that make the others
}

// batchKeys is how many holds one renewal script takes: the server serves nobody
// else while it runs, about 100 µs.
const batchKeys = 100

func (p *protocol) evalsha(s *script, keys, args []string) rueidis.Completed {
	return p.command("EVALSHA", s.sha, keys, args)
}

func (p *protocol) command(verb, body string, keys, args []string) rueidis.Completed {
	b := p.client.B().Arbitrary(verb, body, smallInt(len(keys)))
	if p.cluster {
		return b.Keys(keys...).Args(args...).Build()
	}
	return b.Args(keys...).Args(args...).Build()
}

func smallInt(n int) string { return strconv.Itoa(n) } // allocates nothing below 100

// eval runs a script.
func (p *protocol) eval(ctx context.Context, s *script, keys, args []string) rueidis.RedisResult {
	r := p.do(ctx, p.evalsha(s, keys, args))
	if re, ok := rueidis.IsRedisErr(r.Error()); ok && re.IsNoScript() {
		r = p.do(ctx, p.command("EVAL", s.text, keys, args))
	}
	return r
}

// replicaError: fewer replicas than wanted have acknowledged a write in time.
type replicaError struct{ got, want int }

func (e *replicaError) Error() string {
	return fmt.Sprintf("%d of %d replicas have acknowledged it in time", e.got, e.want)
}

// evalWait runs a script, and WAIT on the connection that ran it. The write counts
// if the script's result is positive; then a replicaError says that too few replicas
// have it.
//
// In a cluster both go to a dedicated connection, which does not follow a MOVED: the
// script would be sent on, and WAIT be answered by the old node, which has nothing to
// wait for. The MOVED comes back as an error instead, to be tried again.
func (p *protocol) evalWait(ctx context.Context, s *script, keys, args []string, c *sessionConfig) (int64, error) {
	run := func(verb, body string, do func(context.Context, ...rueidis.Completed) []rueidis.RedisResult) []rueidis.RedisResult {
		wait := p.client.B().Wait().Numreplicas(int64(c.replicas)).Timeout(c.ackWait.Milliseconds()).Build()
		if p.cluster {
			wait = wait.SetSlot(keys[0])
		}
		return do(ctx, p.command(verb, body, keys, args), wait)
	}
	do := p.doMulti
	if p.cluster {
		conn, put := p.client.Dedicate()
		defer put()
		do = func(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
			return p.detached(ctx, conn.DoMulti, cmds)
		}
	}
	rs := run("EVALSHA", s.sha, do)
	if re, ok := rueidis.IsRedisErr(rs[0].Error()); ok && re.IsNoScript() {
		rs = run("EVAL", s.text, do)
	}
	n, err := rs[0].AsInt64()
	if err != nil || n <= 0 {
		return n, err
	}
	acks, err := rs[1].AsInt64()
	if err == nil && int(acks) < c.replicas {
		err = &replicaError{int(acks), c.replicas}
	}
	return n, err
}

// call is one run of a script in a batch.
type call struct {
	*script
	keys, args []string
}

// evalAll runs scripts in one pipeline per node. The results stand in order.
func (p *protocol) evalAll(ctx context.Context, calls []call) []rueidis.RedisResult {
	cmds := make(rueidis.Commands, len(calls))
	for i, c := range calls {
		cmds[i] = p.evalsha(c.script, c.keys, c.args)
	}
	results := p.doMulti(ctx, cmds...)
	var unknown []int
	cmds = nil
	for i, c := range calls {
		if re, ok := rueidis.IsRedisErr(results[i].Error()); ok && re.IsNoScript() {
			unknown = append(unknown, i)
			cmds = append(cmds, p.command("EVAL", c.text, c.keys, c.args))
		}
	}
	if len(unknown) > 0 {
		for i, r := range p.doMulti(ctx, cmds...) {
			results[unknown[i]] = r
		}
	}
	return results
}
