package redistest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A member is what one node of a cluster knows of another, or of itself.
type member struct {
	id     string
	myself bool
	master bool
	of     string // id of its master, of a replica
	epoch  int64
	ranges [][2]int // first and last slot of each range it serves
}

// serves reports whether the member is the master of a slot.
func (m member) serves(slot uint16) bool {
	return m.master && slices.ContainsFunc(m.ranges, func(r [2]int) bool {
		return r[0] <= int(slot) && int(slot) <= r[1]
	})
}

// readMembers parses the reply to CLUSTER NODES. Nodes that are not introduced
// to each other yet are left out.
func readMembers(reply any) ([]member, error) {
	text, ok := reply.(string)
	if !ok {
		return nil, fmt.Errorf("%w: CLUSTER NODES answered %T", errReply, reply)
	}
	var members []member
	for line := range strings.Lines(text) {
		// id address flags master ping-sent pong-received epoch link-state slot…
		field := strings.Fields(line)
		if len(field) < 8 {
			return nil, fmt.Errorf("%w: %q", errReply, line)
		}
		flags := strings.Split(field[2], ",")
		if slices.Contains(flags, "handshake") || slices.Contains(flags, "noaddr") {
			continue
		}
		m := member{
			id:     field[0],
			myself: slices.Contains(flags, "myself"),
			master: slices.Contains(flags, "master"),
			of:     field[3],
		}
		var err error
		if m.epoch, err = strconv.ParseInt(field[6], 10, 64); err != nil {
			return nil, fmt.Errorf("%w: %q", errReply, line)
		}
		for _, f := range field[8:] {
			if strings.HasPrefix(f, "[") {
				continue // a slot that is being moved
			}
			first, last, ok := strings.Cut(f, "-")
			if !ok {
				last = first
			}
			a, err1 := strconv.Atoi(first)
			b, err2 := strconv.Atoi(last)
			if err := cmp.Or(err1, err2); err != nil {
				return nil, fmt.Errorf("%w: %q", errReply, line)
			}
			m.ranges = append(m.ranges, [2]int{a, b})
		}
		members = append(members, m)
	}
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.id, b.id) })
	return members, nil
}

// shape describes who serves and who replicates what, the same for all nodes that agree about
// it. The epoch belongs to that: a node that does not know the new one of a master gives a slot of
// it back to the last master, at a message that was on its way, and once that has a newer epoch, for good.
func shape(members []member) string {
	var b strings.Builder
	for _, m := range members {
		fmt.Fprintln(&b, m.id, m.master, m.of, m.epoch, m.ranges)
	}
	return b.String()
}

// members returns what a server that is awake knows of its cluster.
func (s *Server) members() ([]member, error) {
	reply, err := s.do(probeTimeout, "CLUSTER", "NODES")
	if err != nil {
		return nil, err
	}
	return readMembers(reply)
}

// myself returns what a server knows of itself; false if it does not answer.
func (s *Server) myself() (member, bool) {
	members, err := s.members()
	if err != nil {
		return member{}, false
	}
	i := slices.IndexFunc(members, func(m member) bool { return m.myself })
	if i < 0 {
		return member{}, false
	}
	return members[i], true
}
