package transport

import (
	"context"
	"errors"
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
	conn    *Conn
	changed func()        // called after a change; must not block
	kick    chan struct{} // asks Run for a lookup

	mu     sync.Mutex // protects the following
	table  *slotTable
	source string // address of the node that answered the last lookup
}

// slotTable says which node is the primary of which slot.
type slotTable struct {
	nodes []string      // addresses of primaries, after "" for none
	slots [slots]uint16 // an index of nodes for each slot
}

// set records that the node at addr serves the slots from first to last.
func (t *slotTable) set(first, last int64, addr string) {
	i := slices.Index(t.nodes, addr)
	if i < 0 {
		i = len(t.nodes)
		t.nodes = append(t.nodes, addr)
	}
	for slot := max(first, 0); slot <= min(last, int64(len(t.slots)-1)); slot++ {
		t.slots[slot] = uint16(i)
	}
}

// NewSlotMap returns an empty map, which calls changed after each change; that must not block.
func NewSlotMap(conn *Conn, changed func()) *SlotMap {
	return &SlotMap{conn: conn, changed: changed, kick: make(chan struct{}, 1), table: readSlots(nil, "")}
}

// Primary returns the address of the primary of a slot, or "" if it is unknown.
func (m *SlotMap) Primary(slot uint16) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.table.nodes[m.table.slots[slot]]
}

// Primaries returns the addresses of all primaries. If one of them answered the last lookup, it is
// the first.
func (m *SlotMap) Primaries() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	addrs := slices.Clone(m.table.nodes[1:])
	if i := slices.Index(addrs, m.source); i > 0 {
		addrs[0], addrs[i] = addrs[i], addrs[0]
	}
	return addrs
}

// Moved records that a node has named another one for a slot, and requests a lookup.
func (m *SlotMap) Moved(slot uint16, addr string) {
	m.mu.Lock()
	m.table.set(int64(slot), int64(slot), addr)
	m.mu.Unlock()
	m.Refresh()
	m.changed()
}

// Refresh requests a lookup by Run.
func (m *SlotMap) Refresh() { timing.Signal(m.kick) }

// Run serves requests for a lookup until ctx ends.
func (m *SlotMap) Run(ctx context.Context) {
	for {
		select {
		case <-m.kick:
		case <-ctx.Done():
			return
		}
		m.Look(ctx)
		timing.Pause(ctx, timing.Jitter(lookPause))
	}
}

// Look asks one node after the other until one answers.
func (m *SlotMap) Look(ctx context.Context) {
	for addr, node := range m.conn.Client.Nodes() { // in random order
		within, stop := timing.Within(ctx, nodeTimeout) // it may hang
		reply, err := m.conn.Ask(within, addr, node, node.B().ClusterSlots().Build()).ToArray()
		stop()
		if _, refused := Code(err); refused {
			return
		}
		if t := readSlots(reply, addr); len(t.nodes) > 1 {
			m.mu.Lock()
			m.table, m.source = t, addr
			m.mu.Unlock()
			m.changed()
			return
		}
	}
}

// readSlots reads the reply of CLUSTER SLOTS from the node at addr. It returns the addresses
// by which the client knows the nodes.
func readSlots(reply []rueidis.RedisMessage, addr string) *slotTable {
	t := &slotTable{nodes: []string{""}}
	self, _, _ := net.SplitHostPort(addr)
	for _, entry := range reply {
		part, _ := entry.ToArray()
		if len(part) < 3 {
			continue
		}
		node, _ := part[2].ToArray()
		if len(node) < 2 {
			continue
		}
		first, err1 := part[0].AsInt64()
		last, err2 := part[1].AsInt64()
		host, _ := node[0].ToString() // nil or empty: the host of the node that answers
		port, err3 := node[1].AsInt64()
		if errors.Join(err1, err2, err3) != nil || host == "?" {
			continue
		}
		if host == "" {
			host = self
		}
		t.set(first, last, net.JoinHostPort(host, strconv.FormatInt(port, 10)))
	}
	return t
}
