package transport

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// Conn sends commands and scripts to one deployment, on behalf of one session. It neither
// retries nor waits. It is safe for concurrent use.
//
// Outside a cluster rueidis is not told which arguments are keys: it then sends all commands
// on one connection, in order, instead of choosing one of several at random. So a release
// that follows a cancelled acquire cannot overtake it.
type Conn struct {
	// Set before the first lock, constant afterwards.
	Client   rueidis.Client
	Slots    *SlotMap      // nil outside a cluster
	Replicas int           // that must acknowledge an acquisition; 0: none
	AckWait  time.Duration // for their acknowledgement

	up *atomic.Bool // the server answers on the subscription connection
	wg Group        // of the goroutines for calls that may block in the client

	start       time.Time    // zero of closedSince
	closedSince atomic.Int64 // since when the client returns ErrClosing; 0: it does not
	doubtful    atomic.Bool  // the last call got no answer
	Spent       atomic.Bool  // the last check found the pool of dedicated connections exhausted
	stuck       atomic.Int32 // abandoned calls of Dedicate
	contexts    sync.Pool    // of *Context

	_        CacheLine
	inFlight atomic.Int32 // direct calls under way
}

// NewConn returns a Conn outside a cluster. up is true while the server answers on the
// subscription connection; wg counts the goroutines of the Conn.
func NewConn(client rueidis.Client, replicas int, ackWait time.Duration, wg Group, up *atomic.Bool) *Conn {
	return &Conn{Client: client, Replicas: replicas, AckWait: ackWait, up: up, start: time.Now(), wg: wg}
}

// Group runs goroutines that somebody waits for, such as a sync.WaitGroup.
type Group interface{ Go(f func()) }

// CacheLine separates fields that every call writes from fields that are only read.
type CacheLine [64]byte

// Evalsha returns the command that runs a script, by its digest if that is known.
func (c *Conn) Evalsha(s *Script, keys, args []string) rueidis.Completed {
	verb, body := s.Call()
	return c.command(verb, body, keys, args)
}

func (c *Conn) command(verb, body string, keys, args []string) rueidis.Completed {
	return c.Command(keys, args, verb, body, strconv.Itoa(len(keys)))
}

// Command returns a command that begins with these words, before keys and arguments.
func (c *Conn) Command(keys, args []string, words ...string) rueidis.Completed {
	b := c.Client.B().Arbitrary(words...)
	if c.Slots != nil {
		return b.Keys(keys...).Args(args...).Build()
	}
	return b.Args(keys...).Args(args...).Build()
}

// Eval runs a script, by its text if the server does not know the digest.
func (c *Conn) Eval(ctx context.Context, s *Script, keys, args []string) (r rueidis.RedisResult) {
	r = c.do(ctx, c.Evalsha(s, keys, args))
	if re, ok := rueidis.IsRedisErr(r.Error()); ok && re.IsNoScript() {
		r = c.do(ctx, c.command("EVAL", s.Text, keys, args))
	}
	return r
}

// Call is one run of a script in a batch.
type Call struct {
	*Script
	Keys, Args []string
}

// EvalAll runs scripts in one pipeline and returns the results in order.
func (c *Conn) EvalAll(ctx context.Context, calls []Call) []rueidis.RedisResult {
	cmds := make(rueidis.Commands, len(calls))
	for i, call := range calls {
		cmds[i] = c.Evalsha(call.Script, call.Keys, call.Args)
	}
	results := c.Pipelined(ctx, cmds)
	var unknown []int
	cmds = nil
	for i, call := range calls {
		if re, ok := rueidis.IsRedisErr(results[i].Error()); ok && re.IsNoScript() {
			unknown = append(unknown, i)
			cmds = append(cmds, c.command("EVAL", call.Text, call.Keys, call.Args))
		}
	}
	if len(unknown) > 0 {
		for i, r := range c.Pipelined(ctx, cmds) {
			results[unknown[i]] = r
		}
	}
	return results
}

// Pipelined sends commands, at least one, in one pipeline. In a cluster all should belong to
// one node: the client waits for the replies of every node.
func (c *Conn) Pipelined(ctx context.Context, cmds rueidis.Commands) []rueidis.RedisResult {
	results := c.doMulti(ctx, cmds...)
	if c.Slots != nil && slices.ContainsFunc(results, unanswered) {
		c.Slots.Refresh()
	}
	return results
}

func unanswered(r rueidis.RedisResult) bool { return r.NonRedisError() != nil }
