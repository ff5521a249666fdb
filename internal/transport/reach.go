package transport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// rueidis does not hear the end of a context while it dials (whoever's call began that), while its
// queue is full, and in its synchronous mode, in which a connection is until calls overlap. And
// what it hears harms others: a deadline that passes in synchronous mode closes the connection that
// all users of the client share, and a context that ends makes the pool larger. Therefore:
//
//   - rueidis never sees the context of a call. Goroutines of the Conn give it the commands, under a
//     context without end. The call waits for the reply, or for the end of its own context: then it
//     leaves the goroutine behind.
//   - Such a goroutine ends when the reply comes, or when rueidis gives the connection up. A command
//     that rueidis has not accepted when its call ends is not sent.
//   - Each goroutine has a place, of which there are so many for each node. Without a place nothing
//     starts: the call waits for one, or for its end.

const (
	// maxCalls is the number of calls under way at a node. Those that were left behind keep their
	// place, and one of the 1024 that the client's queue has by default; the rest is the
	// application's.
	maxCalls = 512

	// maxRounds is the number of pipelines under way at a node. They have places of their own, so
	// that calls that were left behind do not hold up renewals.
	maxRounds = 64

	// maxIdle is the number of goroutines that wait for the next command. To wake one takes less
	// time than to start one.
	maxIdle = 8

	replacedFor = 2 * time.Second // the client may return ErrClosing for so long without being closed
)

var (
	errReplaced = errors.New("the client has replaced the connection")

	// ErrClusterNode means that the server belongs to a cluster and the client does not know.
	ErrClusterNode = errors.New("the server is a node of a cluster, which the client takes for a single server; " +
		"connect without rueidis.ClientOption.ForceSingleClient")
)

// places bounds what is under way at one node.
type places struct {
	route
	dedicate chan struct{}
}

func newPlaces(addr string, client rueidis.CommandClient) *places {
	p := &places{route: route{addr: addr, room: newRoom()}, dedicate: make(chan struct{}, maxDedicating)}
	p.path = newPath(&p.route, client, nil)
	return p
}

// at returns the places at the node with that address, "" if it is unknown or there is only one.
func (c *Conn) at(addr string) *places {
	if addr == "" {
		return c.places
	}
	p, known := c.nodes.Load(addr)
	if !known {
		p, _ = c.nodes.LoadOrStore(addr, newPlaces(addr, c.Client))
	}
	return p.(*places)
}

// addrOf returns the address of the node that a command goes to, "" if that is unknown or there is
// only one.
func (c *Conn) addrOf(cmd rueidis.Completed) string {
	if c.Slots == nil || cmd.Slot() >= slots { // without a key
		return ""
	}
	return c.Slots.Primary(cmd.Slot())
}

// A sending is commands that a goroutine gives to rueidis. It is used again; its context is not,
// which rueidis may look at after it has answered.
type sending struct {
	ctx      *unending
	path     *path // nil: a question to a node
	place    chan struct{}
	answered chan struct{} // gets a signal with the reply

	client rueidis.CommandClient
	cmd    rueidis.Completed
	cmds   rueidis.Commands // instead of cmd, unless nil
	r      rueidis.RedisResult
	rs     []rueidis.RedisResult
}

// unending is the context of a sending. It has the values of the call's, and only reports that it
// has ended once the call has left it.
type unending struct {
	context.Context // has the values
	left            atomic.Bool
	never           chan struct{} // is never closed; nil: the synchronous mode will do
}

// Deadline reports that there is none.
func (s *unending) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done returns a channel that is never closed. If there is one rueidis does not use its synchronous
// mode.
func (s *unending) Done() <-chan struct{} { return s.never }

// Err returns context.Canceled once the call has left.
func (s *unending) Err() error {
	if s.left.Load() {
		return context.Canceled
	}
	return nil
}

// valuesOf returns a context with the values of ctx that lasts: a Context is used again.
func valuesOf(ctx context.Context) context.Context {
	if io, ok := ctx.(*Context); ok {
		return io.Context
	}
	return ctx
}

// send has a goroutine send cmd, or cmds unless that is nil, to client, and waits for the reply.
// That is on path p, unless p is nil.
func (c *Conn) send(
	ctx context.Context, p *path, client rueidis.CommandClient, place, never chan struct{},
	cmd rueidis.Completed, cmds rueidis.Commands,
) (r rueidis.RedisResult, rs []rueidis.RedisResult) {
	n := len(cmds)
	var left chan struct{}
	if p != nil {
		left = p.left
	}
	if err := take(ctx, place, left); err != nil {
		if p != nil {
			c.end(p, context.Canceled)
			if err == errLeft {
				err = p.why
			}
		}
		return rueidis.NewErrorResult(err), failed(n, err)
	}
	s, _ := c.sendings.Get().(*sending)
	if s == nil {
		s = &sending{answered: make(chan struct{}, 1)}
	}
	s.ctx = &unending{Context: valuesOf(ctx), never: never}
	s.path, s.client, s.place, s.cmd, s.cmds = p, client, place, cmd.ToPipe(), cmds
	for i, cmd := range cmds {
		cmds[i] = cmd.ToPipe()
	}
	select {
	case c.work <- s:
	default:
		c.wg.Go(func() { c.serve(s) }) // ends with the session, or the reply
	}
	select {
	case <-s.answered:
		r, rs = s.r, s.rs
		*s = sending{answered: s.answered}
		c.sendings.Put(s)
		return r, rs
	case <-left:
		s.ctx.left.Store(true)
		return rueidis.NewErrorResult(p.why), failed(n, p.why)
	case <-ctx.Done():
		s.ctx.left.Store(true)
		return rueidis.NewErrorResult(ctx.Err()), failed(n, ctx.Err())
	}
}

// take takes a place, unless ctx ends, or the path is left, before.
func take(ctx context.Context, place, left chan struct{}) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case place <- struct{}{}:
		return nil
	default:
	}
	select {
	case place <- struct{}{}:
		return nil
	case <-left:
		return errLeft
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serve sends s, and then what comes next.
func (c *Conn) serve(s *sending) {
	for s != nil {
		s.send()
		if s.path != nil {
			c.end(s.path, s.err())
		}
		<-s.place
		s.answered <- struct{}{}
		s = c.next()
	}
}

// next returns what to send next, nil if enough goroutines wait for that, or the session is over.
func (c *Conn) next() *sending {
	defer c.idle.Add(-1)
	if c.idle.Add(1) > maxIdle || c.Over == nil {
		return nil
	}
	select {
	case s := <-c.work:
		return s
	case <-c.Over:
		return nil
	}
}

func (s *sending) send() {
	if s.cmds != nil {
		s.rs = s.client.DoMulti(s.ctx, s.cmds...)
	} else {
		s.r = s.client.Do(s.ctx, s.cmd)
	}
}

// err returns the first error.
func (s *sending) err() error {
	if s.cmds == nil {
		return s.r.Error()
	}
	for _, r := range s.rs {
		if err := r.Error(); err != nil {
			return err
		}
	}
	return nil
}

// failed returns n results with an error.
func failed(n int, err error) []rueidis.RedisResult {
	return slices.Repeat([]rueidis.RedisResult{rueidis.NewErrorResult(err)}, n)
}

// observe replaces errors that mislead the caller. The client dials with the context of the first
// call, and returns the error of that context to every call that waits for the connection; for a
// call whose own context has not ended it must not look like the end of that.
func (c *Conn) observe(ctx context.Context, r *rueidis.RedisResult) {
	err := r.NonRedisError()
	if err != nil && c.Slots != nil {
		c.Slots.Refresh() // a replica may have taken over
	}
	switch {
	case err == nil:
		c.closedSince.Store(0)
		if re, refused := rueidis.IsRedisErr(r.Error()); refused && c.Client.Mode() != rueidis.ClientModeCluster {
			if _, moved := re.IsMoved(); moved {
				*r = rueidis.NewErrorResult(ErrClusterNode)
			}
		}
	case IsContextError(err) && ctx.Err() == nil:
		*r = rueidis.NewErrorResult(fmt.Errorf("no connection: %v", err))
	case err == rueidis.ErrClosing && c.Client.Mode() != rueidis.ClientModeStandalone:
		// It may have closed only one connection: Sentinel has named another primary, or a node
		// has left the cluster.
		now := time.Now().UnixNano()
		c.closedSince.CompareAndSwap(0, now)
		if now-c.closedSince.Load() < int64(replacedFor) {
			*r = rueidis.NewErrorResult(errReplaced)
		}
	}
}

// IsContextError reports whether err is the error of a context that has ended.
func IsContextError(err error) bool {
	return errors.Is(err, context.Canceled) || err == context.DeadlineExceeded
}

// do sends one command. If its caller's context can end, it is not to block the connection until
// its reply: when it is left behind, and the network delays it, its release must be under way right
// behind it.
func (c *Conn) do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	never := c.never
	if valuesOf(ctx).Done() == nil {
		never = nil
	}
	p := c.begin(&c.at(c.addrOf(cmd)).route)
	r, _ := c.send(ctx, p, p, p.places.calls, never, cmd, nil)
	c.observe(ctx, &r)
	return r
}

// Pipelined sends commands in one pipeline.
func (c *Conn) Pipelined(ctx context.Context, cmds rueidis.Commands) []rueidis.RedisResult {
	if len(cmds) == 0 {
		return nil
	}
	p := c.begin(&c.at(c.addrOf(cmds[0])).route)
	_, rs := c.send(ctx, p, p, p.places.rounds, nil, rueidis.Completed{}, cmds)
	for i := range rs {
		c.observe(ctx, &rs[i])
	}
	return rs
}

// Ask sends one command to the node at addr.
func (c *Conn) Ask(
	ctx context.Context, addr string, node rueidis.Client, cmd rueidis.Completed,
) rueidis.RedisResult {
	r, _ := c.send(ctx, nil, node, c.at(addr).room.rounds, nil, cmd, nil)
	return r
}
