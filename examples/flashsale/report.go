package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/relock-go/relock"
)

// stats counts what the buyers and the sessions tell it. It is the Observer of every
// session: its methods are called in the middle of Lock, so they are short.
type stats struct {
	relock.NopObserver
	served, late atomic.Int64

	mu       sync.Mutex // protects the following
	waits    []time.Duration
	handoffs int // the lock came from another buyer of the same instance
	asked    int // it came from Redis
}

// Acquired implements [relock.Observer].
func (s *stats) Acquired(_ context.Context, e relock.AcquireEvent) {
	if !e.Held {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits = append(s.waits, e.Wait)
	if e.Local {
		s.handoffs++
	} else {
		s.asked++
	}
}

// result is how a sale ended.
type result struct {
	stock, sold int
	twice       int  // orders for an item that has an order already
	late        bool // the frozen instance has written its order
	took        time.Duration
}

// add counts an order, given the items that have one.
func (r *result) add(order string, items map[int]bool) error {
	var item int
	var token int64
	if _, err := fmt.Sscanf(order, "item %d token %d", &item, &token); err != nil {
		return fmt.Errorf("order %q: %w", order, err)
	}
	r.sold++
	if items[item] {
		r.twice++
	}
	items[item] = true
	return nil
}

// over returns how many more orders there are than items.
func (r *result) over() int { return max(0, r.sold-r.stock) }

// status says if an item was sold twice, and returns the exit status.
func (r *result) status(w io.Writer) int {
	if r.twice == 0 {
		return 0
	}
	fmt.Fprintf(w, "\nOVERSOLD: %d orders are for an item that was sold already.\n", r.twice)
	return 1
}

// print writes the table.
func (r *result) print(w io.Writer, s *stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	row := func(name string, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	row("sold", "%d of %d", r.sold, r.stock)
	row("oversold", "%d", r.over())
	row("sold twice", "%d", r.twice)
	row("came too late", "%d", s.late.Load())
	if n := len(s.waits); n > 0 {
		slices.SortFunc(s.waits, cmp.Compare)
		row("wait p50", "%v", round(s.waits[n/2]))
		row("wait p99", "%v", round(s.waits[n*99/100]))
		row("hand-offs", "%d", s.handoffs)
		row("acquired in Redis", "%d", s.asked)
	}
	row("time", "%v", round(r.took))
	t.Flush()
}

func round(d time.Duration) time.Duration {
	return d.Round(max(time.Microsecond, d.Truncate(time.Second)/100, 100*time.Microsecond))
}

// showProgress shows how many buyers were served until stop is closed: as one line
// that changes on a terminal, elsewhere as a row of dots.
func showProgress(w io.Writer, s *stats, buyers int, stop <-chan struct{}) {
	const dots = 50
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	shown := 0
	for running := true; running; {
		select {
		case <-tick.C:
		case <-stop:
			running = false
		}
		served := int(s.served.Load())
		if isTerminal(w) {
			fmt.Fprintf(w, "\r%d of %d buyers served", served, buyers)
			continue
		}
		now := served * dots / buyers
		fmt.Fprint(w, strings.Repeat(".", now-shown))
		shown = now
	}
	fmt.Fprint(w, "\n\n")
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
