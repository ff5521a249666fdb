package relock

import (
	"context"
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
	counted string        // 1 if the server knows every subscriber of such a channel, else 0
	claim   time.Duration // of a waiter of a FairMutex that this session gives the lock to

	atlas  *atlas          // of a cluster
	up     *atomic.Bool    // the server answers on the subscription connection
	doubt  atomic.Bool     // the last call got no answer
	start  time.Time       // when closed was 0
	closed atomic.Int64    // since when the client has said that it is closed; 0: it has not
	wg     *sync.WaitGroup // of the goroutines that make calls which do not wait in the client

	_      cacheLine
	direct atomic.Int32 // calls under way that do
}

// cacheLine keeps what every call writes apart from what others only read.
type cacheLine [64]byte

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
	results := p.pipelined(ctx, cmds)
	var unknown []int
	cmds = nil
	for i, c := range calls {
		if re, ok := rueidis.IsRedisErr(results[i].Error()); ok && re.IsNoScript() {
			unknown = append(unknown, i)
			cmds = append(cmds, p.command("EVAL", c.text, c.keys, c.args))
		}
	}
	if len(unknown) > 0 {
		for i, r := range p.pipelined(ctx, cmds) {
			results[unknown[i]] = r
		}
	}
	return results
}

// pipelined sends commands, of which there must be one at least. In a cluster each node
// has a pipeline of its own: one that hangs does not keep the replies of the others,
// as it would if the client were given all at once.
func (p *protocol) pipelined(ctx context.Context, cmds rueidis.Commands) []rueidis.RedisResult {
	if p.atlas == nil {
		return p.doMulti(ctx, cmds...)
	}
	nodes := make(map[string][]int)
	for i := range cmds {
		addr := p.atlas.home(cmds[i].Slot())
		nodes[addr] = append(nodes[addr], i)
	}
	results := make([]rueidis.RedisResult, len(cmds))
	var wg sync.WaitGroup
	for _, places := range nodes {
		wg.Go(func() {
			some := make(rueidis.Commands, len(places))
			for i, at := range places {
				some[i] = cmds[at]
			}
			for i, r := range p.doMulti(ctx, some...) {
				results[places[i]] = r
				if r.NonRedisError() != nil {
					p.atlas.stale()
				}
			}
		})
	}
	wg.Wait()
	return results
}
