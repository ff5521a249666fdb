package redistest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

const (
	failoverAttempt = 7 * time.Second // after which a node gives a failover up
	migrateBatch    = "100"           // keys moved by one MIGRATE
	migrateTimeout  = "10000"         // of one MIGRATE, in milliseconds
)

var errGivenUp = errors.New("the nodes gave it up")

// Failover makes a replica take the place of its master by CLUSTER FAILOVER, and
// returns when the cluster has settled. how may be FORCE, which does not ask the
// master, or TAKEOVER, which asks nobody; otherwise the master hands over and
// nothing is lost. It blocks for at most a minute and a half.
func (c *Cluster) Failover(replica *Server, how ...string) error {
	c.tb.Helper()
	var err error
	ok := poll(2*settleWithin, func() bool {
		// A replica whose link is down refuses, and an attempt may be given up.
		if _, err = replica.do(probeTimeout, slices.Concat([]string{"CLUSTER", "FAILOVER"}, how)...); err != nil {
			return isMaster(replica)
		}
		err = errGivenUp
		return poll(failoverAttempt, func() bool { return isMaster(replica) })
	})
	if !ok {
		return report(c.tb, fmt.Errorf("redistest: failover to %s: %w", replica.Addr(), err))
	}
	return c.Settle()
}

func isMaster(s *Server) bool {
	m, ok := s.myself()
	return ok && m.master
}

// WaitFailover returns when the cluster has settled without old: its slots are
// served by others. It blocks for at most 30 seconds.
func (c *Cluster) WaitFailover(old *Server) error {
	c.tb.Helper()
	return settle(c.tb, "the cluster to do without "+old.Addr(), func() bool {
		nodes := awake(c.nodes)
		if len(nodes) == 0 || !c.settled() {
			return false
		}
		members, err := nodes[0].members()
		return err == nil && !slices.ContainsFunc(members, func(m member) bool {
			return m.id == c.ids[old] && m.master && len(m.ranges) > 0
		})
	})
}

// MigrateSlot moves a slot and its keys to another master while clients go on,
// and returns when the cluster has settled. It does nothing when the slot is
// there already.
func (c *Cluster) MigrateSlot(slot uint16, to *Server) error {
	c.tb.Helper()
	m, err := c.BeginMigration(slot, to)
	if err != nil {
		return err
	}
	return m.Finish()
}

// A Migration is the move of one slot, half done. Meanwhile the old master answers
// ASK for a key that it does not have, and either master answers TRYAGAIN to a
// command with several keys of which it has some and not all.
type Migration struct {
	c        *Cluster
	slot     string
	from, to *Server // the same when there is nothing to do
}

// BeginMigration begins to move a slot to another master and moves no key yet.
// [Migration.Finish] must follow.
func (c *Cluster) BeginMigration(slot uint16, to *Server) (*Migration, error) {
	c.tb.Helper()
	m := &Migration{c: c, slot: strconv.Itoa(int(slot)), from: c.NodeForSlot(slot), to: to}
	if m.from == nil {
		return nil, report(c.tb, fmt.Errorf("redistest: nobody serves slot %d", slot))
	}
	if m.from == to {
		return m, nil
	}
	// In this order, because the old master sends clients to the new one at once.
	if err := m.set(to, "IMPORTING", c.ids[m.from]); err != nil {
		return nil, report(c.tb, err)
	}
	if err := m.set(m.from, "MIGRATING", c.ids[to]); err != nil {
		return nil, report(c.tb, err)
	}
	return m, nil
}

func (m *Migration) set(s *Server, state, id string) error {
	if _, err := s.Do("CLUSTER", "SETSLOT", m.slot, state, id); err != nil {
		return fmt.Errorf("redistest: slot %s %s on %s: %w", m.slot, state, s.Addr(), err)
	}
	return nil
}

// Move moves the given keys, which must be of the slot, or all its keys when
// none are given. Keys that do not exist are passed over.
func (m *Migration) Move(keys ...string) error {
	m.c.tb.Helper()
	return report(m.c.tb, m.move(keys))
}

func (m *Migration) move(keys []string) error {
	if m.from == m.to {
		return nil
	}
	if len(keys) > 0 {
		return m.migrate(keys)
	}
	for {
		reply, err := m.from.Do("CLUSTER", "GETKEYSINSLOT", m.slot, migrateBatch)
		if err != nil {
			return fmt.Errorf("redistest: keys of slot %s: %w", m.slot, err)
		}
		list, _ := reply.([]any)
		if len(list) == 0 {
			return nil
		}
		keys = keys[:0]
		for _, key := range list {
			keys = append(keys, fmt.Sprint(key))
		}
		if err := m.migrate(keys); err != nil {
			return err
		}
	}
}

func (m *Migration) migrate(keys []string) error {
	args := []string{"MIGRATE", "127.0.0.1", strconv.Itoa(m.to.port), "", "0", migrateTimeout}
	if m.to.password != "" {
		args = append(args, "AUTH", m.to.password)
	}
	if _, err := m.from.Do(slices.Concat(args, []string{"KEYS"}, keys)...); err != nil {
		return fmt.Errorf("redistest: migrate %q: %w", keys, err)
	}
	return nil
}

// Finish moves the keys that are left, gives the slot to its new master, and
// returns when the cluster has settled.
func (m *Migration) Finish() error {
	m.c.tb.Helper()
	if m.from == m.to {
		return nil
	}
	if err := m.move(nil); err != nil {
		return report(m.c.tb, err)
	}
	// The new master first: from then on nobody can be sent back and forth.
	masters := slices.DeleteFunc(m.c.Masters(), func(s *Server) bool { return s == m.to || s == m.from })
	for _, s := range slices.Concat([]*Server{m.to, m.from}, masters) {
		if err := m.set(s, "NODE", m.c.ids[m.to]); err != nil {
			return report(m.c.tb, err)
		}
	}
	return m.c.Settle()
}
