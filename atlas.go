package relock

import (
	"context"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

const (
	atlasBound = 500 * time.Millisecond // for one node to answer
	atlasPause = 200 * time.Millisecond // between two looks at the cluster
)

// atlas knows which node of a cluster is the primary of which slot. It need not be
// right: a command goes where the client sends it, and a node that is asked for a
// channel of another names that one. It tells where to ask first, and which commands
// go to one node together, so that a node that hangs keeps nobody but itself waiting.
//
// Its goroutine, run, looks at the cluster when somebody found it to be wrong. Where
// the cluster does not tell, it stays empty.
type atlas struct {
	client rueidis.Client
	send   func(ctx context.Context, c rueidis.Client, cmd rueidis.Completed) rueidis.RedisResult
	kick   chan struct{}

	mu    sync.Mutex        // protects the following
	spans []span            // in order of slots
	moved map[uint16]string // what was heard since
}

// span are the slots from first to last, which the node at addr serves.
type span struct {
	first, last uint16
	addr        string
}

// home returns the address of the primary of a slot, empty if it is not known.
func (a *atlas) home(slot uint16) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if addr, ok := a.moved[slot]; ok {
		return addr
	}
	i, _ := slices.BinarySearchFunc(a.spans, slot, func(s span, slot uint16) int { return int(s.last) - int(slot) })
	if i < len(a.spans) && a.spans[i].first <= slot {
		return a.spans[i].addr
	}
	return ""
}

// primaries returns the addresses of all primaries.
func (a *atlas) primaries() (addrs []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.spans {
		addrs = append(addrs, s.addr)
	}
	slices.Sort(addrs)
	return slices.Compact(addrs)
}

// heard records that a node has named another one for a slot, and has the cluster
// looked at.
func (a *atlas) heard(slot uint16, addr string) {
	a.mu.Lock()
	if a.moved == nil {
		a.moved = make(map[uint16]string)
	}
	a.moved[slot] = addr
	a.mu.Unlock()
	a.stale()
}

// stale has the cluster looked at soon.
func (a *atlas) stale() { wake(a.kick) }

// run looks at the cluster when it is kicked, until ctx ends.
func (a *atlas) run(ctx context.Context) {
	for {
		select {
		case <-a.kick:
		case <-ctx.Done():
			return
		}
		a.look(ctx)
		pause(ctx, jitter(atlasPause))
	}
}

// look asks one node after the other until one tells.
func (a *atlas) look(ctx context.Context) {
	for addr, node := range a.client.Nodes() { // in random order
		if ctx.Err() != nil {
			return
		}
		io, cancel := context.WithCancel(ctx)
		bound := time.AfterFunc(atlasBound, cancel)
		reply, err := a.send(noDeadline{io}, node, a.client.B().Arbitrary("CLUSTER", "SLOTS").Build()).ToArray()
		bound.Stop()
		cancel()
		if _, refused := redisError(err); refused {
			return
		}
		if spans := readSpans(reply, addr); err == nil && len(spans) > 0 {
			a.mu.Lock()
			a.spans, a.moved = spans, nil
			a.mu.Unlock()
			return
		}
	}
}

// readSpans reads the reply of CLUSTER SLOTS by the node at addr. The addresses are
// those by which the client knows the nodes.
func readSpans(reply []rueidis.RedisMessage, addr string) (spans []span) {
	self, _, _ := net.SplitHostPort(addr)
	for _, entry := range reply {
		part, err := entry.ToArray()
		if err != nil || len(part) < 3 {
			continue
		}
		first, err1 := part[0].AsInt64()
		last, err2 := part[1].AsInt64()
		node, err3 := part[2].ToArray()
		if err1 != nil || err2 != nil || err3 != nil || len(node) < 2 {
			continue
		}
		host, _ := node[0].ToString() // none or empty: that of the node that answers
		if host == "" {
			host = self
		}
		port, err := node[1].AsInt64()
		if err != nil || host == "?" {
			continue
		}
		spans = append(spans, span{uint16(first), uint16(last), net.JoinHostPort(host, strconv.FormatInt(port, 10))})
	}
	slices.SortFunc(spans, func(a, b span) int { return int(a.first) - int(b.first) })
	return spans
}
