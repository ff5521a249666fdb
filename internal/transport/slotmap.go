package transport

import (
	"context"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/timing"
)

const (
	nodeTimeout = 500 * time.Millisecond // for the answer of one node
	lookPause   = 200 * time.Millisecond // between two lookups
)

// SlotMap knows which node of a cluster is the primary of which slot. It is a hint and may be
// wrong: commands go where the client sends them, and a node asked for a channel of another
// node names that one. The map tells where to ask first, and which commands to send to one
// node together, so that a node that hangs delays only its own commands.
//
// Run looks the slots up again when somebody found the map wrong. It stays empty if the
// cluster refuses CLUSTER SLOTS. It is safe for concurrent use.
type SlotMap struct {
	Client  rueidis.Client
	Send    func(ctx context.Context, c rueidis.Client, cmd rueidis.Completed) rueidis.RedisResult
	Changed func()        // called after a change; must not block
	Kick    chan struct{} // asks Run for a lookup; needs room for one signal

	mu     sync.Mutex        // protects the following
	ranges []slotRange       // ordered by slot
	moved  map[uint16]string // redirections since the last lookup
	source string            // address of the node that answered the last lookup
}

// slotRange is the range of slots from first to last, served by the node at addr.
type slotRange struct {
	first, last uint16
	addr        string
}

// Primary returns the address of the primary of a slot, or "" if it is unknown.
func (m *SlotMap) Primary(slot uint16) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if addr, ok := m.moved[slot]; ok {
		return addr
	}
	i, _ := slices.BinarySearchFunc(m.ranges, slot, func(s slotRange, slot uint16) int { return int(s.last) - int(slot) })
	if i < len(m.ranges) && m.ranges[i].first <= slot {
		return m.ranges[i].addr
	}
	return ""
}

// Primaries returns the addresses of all primaries.
func (m *SlotMap) Primaries() (addrs []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.ranges {
		addrs = append(addrs, s.addr)
	}
	slices.Sort(addrs)
	return slices.Compact(addrs)
}

// Awake returns the address of the primary that answered the last lookup, or "" if a
// replica did or none has.
func (m *SlotMap) Awake() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.ContainsFunc(m.ranges, func(s slotRange) bool { return s.addr == m.source }) {
		return m.source
	}
	return ""
}

// Moved records that a node has named another one for a slot, and requests a lookup.
func (m *SlotMap) Moved(slot uint16, addr string) {
	m.mu.Lock()
	if m.moved == nil {
		m.moved = make(map[uint16]string)
	}
	m.moved[slot] = addr
	m.mu.Unlock()
	m.Refresh()
	m.Changed()
}

// Refresh requests a lookup by Run.
func (m *SlotMap) Refresh() { timing.Signal(m.Kick) }

// Run serves requests for a lookup until ctx ends.
func (m *SlotMap) Run(ctx context.Context) {
	for {
		select {
		case <-m.Kick:
		case <-ctx.Done():
			return
		}
		m.Look(ctx)
		timing.Pause(ctx, timing.Jitter(lookPause))
	}
}

// Look asks one node after the other until one answers.
func (m *SlotMap) Look(ctx context.Context) {
	for addr, node := range m.Client.Nodes() { // in random order
		if ctx.Err() != nil {
			return
		}
		io, cancel := timing.Within(ctx, nodeTimeout)
		reply, err := m.Send(NoDeadline{io}, node, m.Client.B().Arbitrary("CLUSTER", "SLOTS").Build()).ToArray()
		cancel()
		if _, refused := Code(err); refused {
			return
		}
		if ranges := readSlots(reply, addr); err == nil && len(ranges) > 0 {
			m.mu.Lock()
			m.ranges, m.moved, m.source = ranges, nil, addr
			m.mu.Unlock()
			m.Changed()
			return
		}
	}
}

// readSlots reads the reply of CLUSTER SLOTS from the node at addr. It returns the addresses
// by which the client knows the nodes.
func readSlots(reply []rueidis.RedisMessage, addr string) (ranges []slotRange) {
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
		host, _ := node[0].ToString() // nil or empty: the host of the node that answers
		if host == "" {
			host = self
		}
		port, err := node[1].AsInt64()
		if err != nil || host == "?" {
			continue
		}
		ranges = append(ranges, slotRange{uint16(first), uint16(last), net.JoinHostPort(host, strconv.FormatInt(port, 10))})
	}
	slices.SortFunc(ranges, func(a, b slotRange) int { return int(a.first) - int(b.first) })
	return ranges
}
