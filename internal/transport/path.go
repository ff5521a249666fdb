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
//	own      a connection of the session   likewise; or the server answers on the shared one again:
//	                                       then that is used; or it breaks
//	sought   none: calls wait              a new connection is answered by a primary: then that is
//	                                       used; or there is none: then the calls fail, and it is
//	                                       sought again
//
// Invariants:
//
//   - A server that is away, or slow, is not left: a new connection is answered no sooner.
//   - The shared connection of a path that was left is used again only once it leads to the server
//     that the own one leads to. It may lead to what has been the primary, and takes itself for
//     that; so may an idle connection of the client's pool, which is not taken for a new one.
//   - The calls under way on a path that is left end at once, as if it had broken. What they have
//     sent may still be executed, even after commands on the next path. That does no harm: no hold
//     id is used again, and what a call without an answer may have acquired is released.
//   - From an own path that works the session goes back only while nothing is under way on it: so
//     commands keep their order.
//   - It closes no connection but its own, and idle ones of the pool that fail or are not new.
type path struct {
	rueidis.CommandClient
	route  *route
	own    *dedicated    // nil: it is shared
	places *room         // for what is under way; without any it is sought
	left   chan struct{} // closed when the session leaves it
	why    error         // that it was left, once it is

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

var errNoAnswer = errors.New("no new connection is answered")

func newPath(r *route, client rueidis.CommandClient, own *dedicated) *path {
	p := &path{CommandClient: client, route: r, own: own, places: r.room, left: make(chan struct{})}
	if own != nil {
		p.places = newRoom()
	}
	return p
}

// sought returns the path to a node to which there is none, until look has found one.
func (c *Conn) sought(r *route) *path {
	p := newPath(r, c.Client, nil)
	p.places = &room{}
	return p
}

// sought reports whether calls wait for the next path.
func (p *path) sought() bool { return p.places.calls == nil }

// room bounds what is under way on a connection, also what was left behind there. All paths over
// the shared connection have the same one.
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
	case err == nil || answered || rueidis.IsRedisNil(err):
		p.heard.Add(1)
		if asReplica(code) {
			p.refused.Store(true)
		}
	case p.own != nil && !IsContextError(err): // it is broken
		c.replace(p, c.sought(p.route), false, err)
	}
	p.pending.Add(-1)
}

// asReplica reports whether an error reply with that code is one of a replica to a write.
func asReplica(code string) bool { return code == "READONLY" || code == "MASTERDOWN" }

// replace makes next the path instead of p, ends the calls on p with an error, and closes what the
// session does not use any more. Unless p is the path, and nothing is under way on it if it is to
// be idle, next is closed instead.
func (c *Conn) replace(p, next *path, idle bool, why error) {
	r := p.route
	r.mu.Lock()
	if r.path == p && (!idle || p.pending.Load() == 0) {
		r.path, p.why = next, why
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

// look looks after r until nothing is under way on the shared connection, or ctx ends.
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
		case p.sought():
			c.seek(ctx, p)
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
			shared := c.ask(ctx, c.node(r.addr), r.room)
			if shared.server != "" && shared.server == c.ask(ctx, p, p.places).server {
				c.replace(p, newPath(r, c.Client, nil), true, errLeft)
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

// An answer says whether a primary answers on a connection, and which server that is.
type answer struct {
	err    error  // of check
	server string // its run id, "" if it does not tell
}

// ask asks on conn, on which the places are.
func (c *Conn) ask(ctx context.Context, conn rueidis.CommandClient, places *room) (a answer) {
	if conn == nil { // the cluster has no such node any more
		return answer{err: ErrSilent}
	}
	if a.err = c.check(ctx, conn, places.questions); a.err == nil {
		a.server = c.serverOf(ctx, conn, places.questions)
	}
	return a
}

// dial dials a new connection to the node that r leads to, and asks on it and, meanwhile, on conn.
func (c *Conn) dial(
	ctx context.Context, r *route, conn rueidis.CommandClient, places *room,
) (own *path, server string, on answer, err error) {
	answered := make(chan answer, 1)
	c.wg.Go(func() { answered <- c.ask(ctx, conn, places) }) // ends with ctx
	fresh, release, err := c.dialNew(ctx, r.addr)
	if err != nil {
		return nil, "", on, err
	}
	own = newPath(r, fresh, &dedicated{fresh, release})
	server = c.serverOf(ctx, own, own.places.questions)
	return own, server, <-answered, nil
}

// reconsider replaces p if a new connection is answered by a primary, and p is not, or leads to
// another server. It returns false if a new one would be no better.
func (c *Conn) reconsider(ctx context.Context, p *path) bool {
	ctx, stop := timing.Within(ctx, switchFor)
	defer stop()
	refused, heard := p.refused.Swap(false), p.heard.Load()
	own, server, old, err := c.dial(ctx, p.route, p.of(c.node(p.route.addr)), p.places)
	if err != nil {
		return false
	}
	switch {
	case old.err == nil && refused && c.roleless(): // it is a replica that does not say so
	case old.err == nil && old.server != server:
	case old.err == ErrReplica:
	case old.err == ErrSilent && p.heard.Load() == heard:
	default: // it is the right one, if perhaps slow
		c.discard(*own.own)
		return true
	}
	c.replace(p, own, false, errLeft)
	return true
}

// seek replaces p, which is sought. The calls that wait fail if there is no path.
func (c *Conn) seek(ctx context.Context, p *path) {
	ctx, stop := timing.Within(ctx, switchFor)
	defer stop()
	r := p.route
	fresh, release, err := c.dialNew(ctx, r.addr)
	switch {
	case IsContextError(err):
		c.replace(p, c.sought(r), false, errNoAnswer)
	case err != nil:
		c.replace(p, c.sought(r), false, err)
	default:
		c.replace(p, newPath(r, fresh, &dedicated{fresh, release}), false, errLeft)
	}
}

// Elsewhere replaces the path outside a cluster, which leads to a replica, if a new connection
// leads to a primary, and reports whether it has.
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
	leave := func(r *route) { c.replace(r.now(), newPath(r, c.Client, nil), false, errLeft) }
	leave(&c.places.route)
	c.nodes.Range(func(_, n any) bool {
		leave(&n.(*places).route)
		return true
	})
}
