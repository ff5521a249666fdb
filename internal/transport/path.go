package transport

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/timing"
)

// A path is the connection on which commands go to a node.
//
// That is the client's shared connection, and it may be the wrong one while a new one would be
// right: after a failover the address of the server leads to another one, and the old one is a
// replica now, or hangs; or a router on the way has forgotten the connection. It may stay open for
// as long as anybody watches. The session must not close it, since others use it. So it leaves it:
//
//	path     commands go over              until
//	shared   the client's connection       it is answered by a replica, or not at all, while a new
//	                                       connection is answered by a primary: then that is used
//	own      a connection of the session   likewise; or it breaks, or a primary answers on the shared
//	                                       one again: then that is used
//
// Invariants:
//
//   - A server that is away, or slow, is not left: a new connection is answered no sooner.
//   - The calls under way on a path that is left end at once, as if it had broken. What they have
//     sent may still be executed, even after commands on the next path. That does no harm: no hold
//     id is used again, and what a call without an answer may have acquired is released.
//   - From an own path that works the session goes back only while nothing is under way on it: so
//     commands keep their order.
//   - It closes no connection but its own, and idle ones of the pool that fail.
type path struct {
	rueidis.CommandClient
	route  *route
	own    *dedicated    // nil: it is shared
	places *room         // for what is under way
	left   chan struct{} // closed when the session leaves it

	pending atomic.Int64 // commands under way, those of calls that have ended too
	heard   atomic.Int64 // commands that were answered
	refused atomic.Bool  // one was answered as a replica does, since Watch has looked
}

const (
	lookEvery = 250 * time.Millisecond // at a path with commands under way
	silentFor = 3                      // such intervals without an answer, before a new connection is tried
	askShared = 4                      // such intervals between two questions whether the shared one works again
	switchFor = 2 * time.Second        // for the answer of a new connection
)

// errLeft is the end of a call whose path was left.
var errLeft = errors.New("the connection led to a replica, or nowhere, and was replaced")

func newPath(r *route, client rueidis.CommandClient, own *dedicated) *path {
	p := &path{CommandClient: client, route: r, own: own, places: r.room, left: make(chan struct{})}
	if own != nil {
		p.places = newRoom()
	}
	return p
}

// room bounds what is under way on a connection, also what was left behind there. All paths over the shared
// connection have the same one.
type room struct {
	calls, rounds, questions chan struct{} // have an element for each call, pipeline, or question, under way
}

func newRoom() *room {
	return &room{make(chan struct{}, maxCalls), make(chan struct{}, maxRounds), make(chan struct{}, 1)}
}

// A route leads to a node, by the path of the moment.
type route struct {
	addr string // "" outside a cluster
	room *room  // of the shared connection

	mu   sync.RWMutex
	path *path // guarded by mu

	watched atomic.Bool // a goroutine of Watch looks after it, or is to
}

// now returns the path of the moment.
func (r *route) now() *path {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.path
}

// begin returns the path of a command that is under way from now on, until end.
func (c *Conn) begin(r *route) *path {
	r.mu.RLock()
	p := r.path
	p.pending.Add(1)
	r.mu.RUnlock()
	if !r.watched.Load() && r.watched.CompareAndSwap(false, true) {
		select {
		case c.unwatched <- r:
		default: // the next command tries again
			r.watched.Store(false)
		}
	}
	return p
}

// end records the answer to a command on p, or why there is none.
func (c *Conn) end(p *path, err error) {
	code, answered := Code(err)
	switch {
	case err == nil || answered:
		p.heard.Add(1)
		if asReplica(code) {
			p.refused.Store(true)
		}
	case p.own != nil && !IsContextError(err): // it is broken
		c.replace(p, newPath(p.route, c.Client, nil), false)
	}
	p.pending.Add(-1)
}

// asReplica reports whether an error reply with that code is one of a replica to a write.
func asReplica(code string) bool { return code == "READONLY" || code == "MASTERDOWN" }

// replace makes next the path instead of p, ends the calls on p, and closes what the session
// does not use any more. Unless p is the path, and nothing is under way on it if it is to be idle,
// next is closed instead.
func (c *Conn) replace(p, next *path, idle bool) {
	r := p.route
	r.mu.Lock()
	if r.path == p && (!idle || p.pending.Load() == 0) {
		r.path = next
		close(p.left)
		p, next = next, p
	}
	r.mu.Unlock()
	if next.own != nil {
		c.discard(*next.own)
	}
}

// Watch looks after the routes on which commands are under way, until ctx ends.
func (c *Conn) Watch(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		select {
		case r := <-c.unwatched:
			wg.Go(func() { c.look(ctx, r) })
		case <-ctx.Done():
			return
		}
	}
}

// look looks after r until nothing is under way on a shared path, or ctx ends.
func (c *Conn) look(ctx context.Context, r *route) {
	var last *path
	heard, silent, pause := int64(0), 0, lookEvery
	for ticks := 1; ; ticks++ {
		timing.Pause(ctx, pause)
		p := r.now()
		n, pending := p.heard.Load(), p.pending.Load()
		if silent++; p != last || n != heard || pending == 0 {
			silent = 0
		}
		last, heard = p, n
		switch {
		case ctx.Err() != nil:
			return
		case p.refused.Load() || silent >= silentFor:
			better := c.reconsider(ctx, p)
			if better {
				silent = 0
			}
			if !better || c.roleless() { // what does not tell its role may be no better
				pause = min(2*pause, switchFor)
				continue
			}
		case p.own != nil && ticks%askShared == 0:
			shared := c.node(r.addr)
			if c.check(ctx, shared, r.room.questions) == nil &&
				c.serverOf(ctx, shared, r.room.questions) == c.serverOf(ctx, p, p.places.questions) {
				c.replace(p, newPath(r, c.Client, nil), true)
			}
		case p.own == nil && pending == 0:
			r.watched.Store(false)
			if p.pending.Load() == 0 || !r.watched.CompareAndSwap(false, true) {
				return
			}
		}
		pause = lookEvery
	}
}

// reconsider replaces p if a new connection is answered by a primary, and p is not. It returns false
// if a new one would be no better.
func (c *Conn) reconsider(ctx context.Context, p *path) bool {
	ctx, stop := timing.Within(ctx, switchFor)
	defer stop()
	refused, heard := p.refused.Swap(false), p.heard.Load()
	r, answer := p.route, make(chan error, 1)
	c.wg.Go(func() { answer <- c.check(ctx, p.of(c.node(r.addr)), p.places.questions) }) // ends with ctx
	conn, release, err := c.Dial(ctx, r.addr)
	if err != nil {
		return false
	}
	own := &dedicated{conn, release}
	err = <-answer
	switch {
	case err == nil && refused && c.roleless(): // it is a replica that does not say so
	case err == ErrReplica:
	case err == ErrSilent && p.heard.Load() == heard:
	default: // it is the right one, if perhaps slow
		c.discard(*own)
		return true
	}
	c.replace(p, newPath(r, conn, own), false)
	return true
}

// Elsewhere replaces the path outside a cluster, which leads to a replica, if a new connection leads to
// a primary, and reports whether it has.
func (c *Conn) Elsewhere(ctx context.Context) bool {
	p := c.places.now()
	return c.reconsider(ctx, p) && c.places.now() != p
}

// of returns where to ask about p, if that is the shared connection to node.
func (p *path) of(node rueidis.CommandClient) rueidis.CommandClient {
	if p.own != nil {
		return p
	}
	return node
}

// Leave closes the connections of the session's own. No command may follow.
func (c *Conn) Leave() {
	leave := func(r *route) { c.replace(r.now(), newPath(r, c.Client, nil), false) }
	leave(&c.places.route)
	c.nodes.Range(func(_, n any) bool {
		leave(&n.(*places).route)
		return true
	})
}
