package interop_test

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// report collects what was measured, and is printed after the tests.
var report table

type table struct {
	w    io.Writer
	mu   sync.Mutex // protects the following
	rows []string
}

func (r *table) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append(r.rows, fmt.Sprintf(format, args...))
}

func (r *table) print() {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.rows)
	if len(r.rows) > 0 && testing.Verbose() {
		fmt.Fprintln(r.w, "\n"+strings.Join(r.rows, "\n"))
	}
}

// quantile returns the q-quantile of times, which it sorts.
func quantile(times []time.Duration, q float64) time.Duration {
	slices.Sort(times)
	return times[min(len(times)-1, int(q*float64(len(times))))]
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}
