package redistest

import (
	"fmt"
	"slices"
	"strconv"
)

// MoveSlots moves the slots from first to last, all of one master, to another master with their
// keys, while clients go on, by the command that the servers have for it: they need [OwnMoves].
// It returns when the cluster has settled.
func (c *Cluster) MoveSlots(first, last uint16, to *Server) error {
	c.tb.Helper()
	task, err := c.BeginMove(first, last, to)
	if err != nil || task == nil {
		return err
	}
	return task.Finish()
}

// A Task is a move of slots that servers do by themselves. The old master has the slots and answers
// for them until all their keys are copied; then both change at once.
type Task struct {
	c              *Cluster
	first, last    uint16
	from, to       *Server
	status, cancel []string // commands for asks
	asks           *Server
}

// BeginMove begins what [Cluster.MoveSlots] does. It returns nil if the slots are there already.
func (c *Cluster) BeginMove(first, last uint16, to *Server) (*Task, error) {
	c.tb.Helper()
	from := c.NodeForSlot(first)
	if from == nil {
		return nil, report(c.tb, fmt.Errorf("redistest: nobody serves slot %d", first))
	}
	if from == to {
		return nil, nil
	}
	task := &Task{c: c, first: first, last: last, from: from, to: to}
	slots := []string{strconv.Itoa(int(first)), strconv.Itoa(int(last))}
	// Valkey tells the old master, Redis the new one.
	task.asks, task.status = from, []string{"CLUSTER", "GETSLOTMIGRATIONS"}
	task.cancel = []string{"CLUSTER", "CANCELSLOTMIGRATIONS"}
	begin := slices.Concat([]string{"CLUSTER", "MIGRATESLOTS", "SLOTSRANGE"}, slots, []string{"NODE", c.ids[to]})
	if !isValkey(from) {
		task.asks, task.status = to, []string{"CLUSTER", "MIGRATION", "STATUS", "ALL"}
		task.cancel = []string{"CLUSTER", "MIGRATION", "CANCEL", "ALL"}
		begin = slices.Concat([]string{"CLUSTER", "MIGRATION", "IMPORT"}, slots)
	}
	if _, err := task.asks.Do(begin...); err != nil {
		return nil, report(c.tb, fmt.Errorf("redistest: %v on %s: %w", begin, task.asks.Addr(), err))
	}
	return task, nil
}

// isValkey reports whether a server is one of Valkey's.
func isValkey(s *Server) bool {
	info, err := s.info(adminTimeout, "server")
	return err == nil && info["valkey_version"] != ""
}

// Cancel ends the move before it is complete, and returns when the cluster has settled. It reports
// whether the slots have stayed: it may come too late.
func (t *Task) Cancel() (stayed bool, err error) {
	t.c.tb.Helper()
	if _, err := t.asks.Do(t.cancel...); err != nil && !t.ended() {
		return false, report(t.c.tb, fmt.Errorf("redistest: %v on %s: %w", t.cancel, t.asks.Addr(), err))
	}
	if err := settle(t.c.tb, "the move to end", t.ended); err != nil {
		return false, err
	}
	if err := t.c.Settle(); err != nil {
		return false, err
	}
	return !t.moved(), nil
}

// ended reports whether the server has ended all its moves.
func (t *Task) ended() bool {
	reply, err := t.asks.Do(t.status...)
	tasks, ok := reply.([]any)
	return err == nil && ok && !slices.ContainsFunc(tasks, func(task any) bool {
		fields, _ := task.([]any)
		i := slices.Index(fields, any("state"))
		return i < 0 || i+1 == len(fields) || !slices.Contains(ends, fields[i+1])
	})
}

// ends are the states of a task that has ended, with Redis and with Valkey.
var ends = []any{"completed", "success", "failed", "canceled", "cancelled"}

func (t *Task) moved() bool {
	m, ok := t.to.myself()
	return ok && m.serves(t.first) && m.serves(t.last)
}

// Finish returns when the slots have moved and the cluster has settled.
func (t *Task) Finish() error {
	t.c.tb.Helper()
	if !poll(settleWithin, t.moved) {
		status, err := t.asks.Do(t.status...)
		return report(t.c.tb, fmt.Errorf("redistest: slots %d to %d have not moved from %s to %s: %v, %v",
			t.first, t.last, t.from.Addr(), t.to.Addr(), status, err))
	}
	return t.c.Settle()
}
