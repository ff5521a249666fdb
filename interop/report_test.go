package interop_test

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// report collects what was measured, and is printed after the tests: as the tables of README.md.
var report = tables{rows: make(map[string][]string)}

// heads are the tables and their columns.
var heads = map[string]string{
	"exclusion": "| Lock | Redisson | Holds of Go | of Java | each |",
	"wake-up":   "| Held to wanted | Redisson | Java to Java | Java to Go | Go to Java | Go to Go |",
	"share":     "| Crowd | Redisson | Turns of the one | of the others | Share of the one | of the others |",
	"distance":  "| Processes | Redisson | Turns of Java | of Go | Share of Java | of Go |",
	"force":     "| Forced | Lock | Redisson | Waiter | gets in after (ms) |",
	"crash":     "| Killed | Redisson | Locks | acquired after (leases) |",
}

type tables struct {
	w    io.Writer
	mu   sync.Mutex // protects the following
	rows map[string][]string
}

func (r *tables) add(table string, cells ...any) {
	row := "|"
	for _, c := range cells {
		row += fmt.Sprint(" ", c, " |")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows[table] = append(r.rows[table], row)
}

func (r *tables) print() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !testing.Verbose() {
		return
	}
	for _, table := range slices.Sorted(maps.Keys(r.rows)) {
		head := heads[table]
		fmt.Fprintf(r.w, "\n%s\n%s\n|%s\n", table, head, strings.Repeat("---|", strings.Count(head, "|")-1))
		for _, row := range slices.Sorted(slices.Values(r.rows[table])) {
			fmt.Fprintln(r.w, row)
		}
	}
}

// quantile returns the q-quantile of times, which it sorts.
func quantile(times []time.Duration, q float64) time.Duration {
	slices.Sort(times)
	return times[min(len(times)-1, int(q*float64(len(times))))]
}

// millis returns d in milliseconds.
func millis(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()*1000) }
