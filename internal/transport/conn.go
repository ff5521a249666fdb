package transport

import (
	"context"
	"strconv"
	"strings"
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

	Over <-chan struct{} // closed at the end of the session; nil: no goroutine waits for commands

	AnyRole atomic.Bool // the server is a replica that is not read-only, or may be one

	Up atomic.Bool // the server answers on the subscription connections
	wg Group       // of the goroutines that send

	start     start
	places    *places
	unwatched chan *route   // for Watch
	roleFrom  atomic.Int64  // when the server may be asked for its role again, in ns since 1970
	nodes     sync.Map      // *places by address, in a cluster
	work      chan *sending // for goroutines that wait for it
	never     chan struct{} // is never closed
	idle      atomic.Int32  // their number
	sendings  sync.Pool     // of *sending

	closedSince atomic.Int64 // since when the client returns ErrClosing, in ns since 1970; 0: it does not
	Spent       atomic.Bool  // the last check found the pool of dedicated connections exhausted
	contexts    sync.Pool    // of *Context
}

// NewConn returns a Conn outside a cluster. wg counts its goroutines.
func NewConn(client rueidis.Client, replicas int, ackWait time.Duration, wg Group) *Conn {
	return &Conn{
		Client: client, Replicas: replicas, AckWait: ackWait, wg: wg,
		places: newPlaces("", client), work: make(chan *sending), unwatched: make(chan *route, 1),
		never: make(chan struct{}),
	}
}

// Group runs goroutines that somebody waits for, such as a sync.WaitGroup.
type Group interface{ Go(f func()) }

// Command returns a command that begins with these words, before keys and arguments.
func (c *Conn) Command(keys, args []string, words ...string) rueidis.Completed {
	b := c.Client.B().Arbitrary(words...)
	if c.Slots != nil {
		return b.Keys(keys...).Args(args...).Build()
	}
	return b.Args(keys...).Args(args...).Build()
}

// Call is one run of a script.
type Call struct {
	*Script
	Keys, Args []string
}

// Evalsha returns the command that runs a script, by its digest if that is known.
func (c *Conn) Evalsha(s *Script, keys, args []string) rueidis.Completed {
	verb, body := s.Call()
	return c.Command(keys, args, verb, body, strconv.Itoa(len(keys)))
}

// evalText returns the command that runs a script if the server does not know its digest.
func (c *Conn) evalText(s *Script, keys, args []string) rueidis.Completed {
	return c.Command(keys, args, "EVAL", s.Text, strconv.Itoa(len(keys)))
}

func isNoScript(err error) bool {
	re, ok := rueidis.IsRedisErr(err)
	return ok && re.IsNoScript()
}

// Eval runs a script.
func (c *Conn) Eval(ctx context.Context, s *Script, keys, args []string) (r rueidis.RedisResult) {
	if r = c.do(ctx, c.Evalsha(s, keys, args)); isNoScript(r.Error()) {
		r = c.do(ctx, c.evalText(s, keys, args))
	}
	return r
}

// EvalOnce is Eval for a script whose own errors may look like one of the server's: it is sent again
// only if the server says in its words that it does not know the digest.
func (c *Conn) EvalOnce(ctx context.Context, s *Script, keys, args []string) rueidis.RedisResult {
	if s.Sha.Load() != nil {
		r := c.do(ctx, c.Evalsha(s, keys, args))
		if !isNoScript(r.Error()) || !strings.Contains(r.Error().Error(), "No matching script") {
			return r
		}
	}
	return c.do(ctx, c.evalText(s, keys, args))
}

// EvalRead runs a script that changes nothing. It is sent once more if its connection breaks.
func (c *Conn) EvalRead(ctx context.Context, s *Script, keys, args []string) rueidis.RedisResult {
	r := c.Eval(ctx, s, keys, args)
	if Broken(r.Error()) {
		r = c.Eval(ctx, s, keys, args)
	}
	return r
}

// EvalAll runs scripts in one pipeline and returns the results in order. In a cluster all should
// belong to one node: the client waits for the replies of every node.
func (c *Conn) EvalAll(ctx context.Context, calls []Call) []rueidis.RedisResult {
	cmds := make(rueidis.Commands, len(calls))
	for i, call := range calls {
		cmds[i] = c.Evalsha(call.Script, call.Keys, call.Args)
	}
	results := c.Pipelined(ctx, cmds)
	var unknown []int
	cmds = nil
	for i, call := range calls {
		if isNoScript(results[i].Error()) {
			unknown = append(unknown, i)
			cmds = append(cmds, c.evalText(call.Script, call.Keys, call.Args))
		}
	}
	if len(unknown) > 0 {
		for i, r := range c.Pipelined(ctx, cmds) {
			results[unknown[i]] = r
		}
	}
	return results
}
