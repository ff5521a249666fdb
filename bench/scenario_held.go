package main

import (
	"fmt"
	"slices"
	"time"
)

const (
	holdGoroutines = 64               // that take and drop many locks
	holdWithin     = 90 * time.Second // for all of them
	sampled        = 100              // keys whose leases are watched
)

// held: many locks are held for some periods of their renewal. Each library in turn
// has a process of its own for that, and an empty server if it is ours to empty.
func (b *bench) held() error {
	for _, h := range b.sizes.held {
		section := b.section(fmt.Sprintf("%d held locks", h.locks))
		idle, err := b.idle(h.lease / 3)
		if err != nil {
			return err
		}
		b.report.remark(section, fmt.Sprintf(
			"lease %v, to be renewed every third of it. Peers that do not renew have a goroutine for each lock "+
				"with a ticker that calls Refresh or Extend. A server with nothing to do takes %s of a period",
			h.lease, formatTime(float64(idle))))
		rows := b.heldRows(section, h)
		err = b.inTurns(h.rounds, b.peers(false), func(p *peer, _ int) error {
			if err := b.srv.clear(); err != nil {
				return err
			}
			crew := b.crew(section, h.lease)
			defer crew.end()
			hands := crew.of(p, 1)
			if hands == nil {
				return nil
			}
			return b.holdMany(crew, p, hands[0], h, rows)
		})
		if err != nil {
			return err
		}
	}
	return b.srv.clear()
}

// idle returns what the server spends in a span on nothing.
func (b *bench) idle(span time.Duration) (time.Duration, error) {
	before, err := b.srv.load()
	if err != nil {
		return 0, err
	}
	time.Sleep(span)
	after, err := b.srv.load()
	return after.since(before).cpu, err
}

type heldRows struct {
	taken, clientCPU, serverCPU, scripts, memory, goroutines, redis, due50, due99, lost *row
}

func (b *bench) heldRows(section string, h held) *heldRows {
	line := func(name string, u unit, good direction) *row {
		return b.report.row(figure{section: section, name: name, unit: u, good: good})
	}
	// The goals are those for 10,000 locks.
	aim := func(name string, u unit, goal float64, chart string) *row {
		f := figure{section: section, name: name, unit: u, good: less}
		if h.locks == 10_000 {
			f.goal = b.goal(goal)
			if !b.far {
				f.chart = chart
			}
		}
		return b.report.row(f)
	}
	period := (h.lease / 3).String()
	return &heldRows{
		taken:      line("taken by 64 goroutines", perSecond, more),
		clientCPU:  aim("processor time, client, each "+period, nanoseconds, 5, "10,000 held: client CPU"),
		serverCPU:  aim("processor time, server, each "+period, nanoseconds, 5, "10,000 held: server CPU"),
		scripts:    line("scripts each "+period, number, less),
		memory:     aim("memory of the client by lock", byteSize, 4, "10,000 held: client memory"),
		goroutines: line("goroutines more", number, less),
		redis:      line("memory of Redis by lock", byteSize, less),
		due50:      line("from due to renewed, p50", nanoseconds, neither),
		due99:      line("from due to renewed, p99", nanoseconds, neither),
		lost:       line("lost", number, less),
	}
}

// holdMany has one worker hold many locks, measures, and has it drop them. The watching
// of leases comes after the measuring, which it would disturb.
func (b *bench) holdMany(crew *crew, p *peer, w *hand, h held, rows *heldRows) error {
	period := h.lease / 3
	// A lock before, so that connections and scripts are there.
	warm := &task{Do: "churn", Name: b.fresh("held"), To: 4 * holdGoroutines, Goroutines: holdGoroutines}
	crew.do(p, w, warm)
	empty, ok := crew.do(p, w, &task{Do: "state"})
	before, err := b.srv.load()
	if err != nil || !ok {
		return err
	}

	t := &task{Do: "hold", Name: b.fresh("held"), To: h.locks, Goroutines: holdGoroutines, Limit: holdWithin}
	start := time.Now()
	out, ok := crew.do(p, w, t)
	if !ok || out.Acquired == 0 {
		return nil
	}
	n := float64(out.Acquired)
	rows.taken.add(p, n/time.Since(start).Seconds())
	if out.Acquired < int64(h.locks) {
		b.report.fault(crew.section, p).note(fmt.Sprintf("only %d locks taken within %v", out.Acquired, holdWithin))
	}
	full, ok := crew.do(p, w, &task{Do: "state"})
	there, err := b.srv.load()
	if err != nil || !ok {
		return err
	}
	rows.memory.add(p, float64(full.Has.Memory-empty.Has.Memory)/n)
	rows.goroutines.add(p, float64(full.Has.Goroutines-empty.Has.Goroutines))
	rows.redis.add(p, float64(there.since(before).memory)/n)

	if _, ok := crew.do(p, w, &task{Do: "spend", Span: period}); !ok { // the first renewals
		return nil
	}
	if before, err = b.srv.load(); err != nil {
		return err
	}
	spent, ok := crew.do(p, w, &task{Do: "spend", Span: time.Duration(h.periods) * period})
	if there, err = b.srv.load(); err != nil || !ok {
		return err
	}
	rows.clientCPU.add(p, float64(spent.Used.CPU)/float64(h.periods))
	rows.serverCPU.add(p, float64(there.since(before).cpu)/float64(h.periods))
	rows.scripts.add(p, float64(there.since(before).scripts)/float64(h.periods))
	if err := b.watchLeases(p, t, h, rows); err != nil {
		return err
	}
	lost, err := b.missing(p, t, h.locks)
	if err != nil {
		return err
	}
	rows.lost.add(p, float64(lost-(h.locks-int(out.Acquired))))
	crew.do(p, w, &task{Do: "drop", Goroutines: holdGoroutines, Limit: holdWithin})
	return nil
}

// watchLeases looks at the leases of some of the locks all the time, and finds out when
// each was renewed, in a period and a half.
func (b *bench) watchLeases(p *peer, t *task, h held, rows *heldRows) error {
	n := min(sampled, h.locks)
	keys := make([]string, n)
	for i := range keys {
		keys[i] = p.keys(numbered(t.Name, i*h.locks/n))[0]
	}
	const look = 5 * time.Millisecond
	period := h.lease / 3
	last := make([]time.Time, n) // when the lease was started, as of the latest look
	var late []int64
	for end := time.Now().Add(period * 3 / 2); time.Now().Before(end); time.Sleep(look) {
		now := time.Now()
		ttls, err := b.srv.ttls(keys)
		if err != nil {
			return err
		}
		for i, ttl := range ttls {
			if ttl <= 0 {
				continue
			}
			started := now.Add(ttl - h.lease)
			if renewed := started.Sub(last[i]); !last[i].IsZero() && renewed > period/20 {
				late = append(late, int64(renewed-period))
			} else if !last[i].IsZero() {
				continue // the same lease, as precisely as it was seen first
			}
			last[i] = started
		}
	}
	if len(late) > 0 {
		rows.due50.add(p, float64(percentile(late, 50)))
		rows.due99.add(p, float64(percentile(late, 99)))
	}
	return nil
}

// missing returns how many of the locks have lost half of their keys or more.
func (b *bench) missing(p *peer, t *task, n int) (missing int, err error) {
	var keys []string
	for i := range n {
		keys = append(keys, p.keys(numbered(t.Name, i))...)
	}
	ttls, err := b.srv.ttls(keys)
	if err != nil {
		return 0, err
	}
	for of := range slices.Chunk(ttls, len(keys)/n) {
		there := 0
		for _, ttl := range of {
			if ttl > 0 {
				there++
			}
		}
		if 2*there <= len(of) {
			missing++
		}
	}
	return missing, nil
}
