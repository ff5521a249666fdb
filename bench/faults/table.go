package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// A table has a row for each fault with each library.
type table struct {
	set    *settings
	rows   []*row
	server string // its version

	repeated int // runs that said nothing
}

type row struct {
	fault *fault
	peer  *peer
	runs  []verdict
}

func newTable(set *settings) *table {
	t := &table{set: set}
	peers := allPeers()
	for _, f := range faults {
		for _, p := range peers {
			r := &row{fault: f, peer: p}
			if set.only.MatchString(r.name()) {
				t.rows = append(t.rows, r)
			}
		}
	}
	return t
}

func (r *row) name() string { return r.fault.id + "/" + r.peer.id }

// count returns in how many runs something is true.
func (r *row) count(is func(verdict) bool) (n int) {
	for _, v := range r.runs {
		if is(v) {
			n++
		}
	}
	return n
}

// sum returns the sum of something over the runs.
func (r *row) sum(of func(verdict) int) (n int) {
	for _, v := range r.runs {
		n += of(v)
	}
	return n
}

// times returns something of the runs in order of size, without those where it is 0 or less.
func (r *row) times(of func(verdict) time.Duration) (all []time.Duration) {
	for _, v := range r.runs {
		if d := of(v); d > 0 {
			all = append(all, d)
		}
	}
	slices.Sort(all)
	return all
}

const (
	notApplicable = "–"
	byNobody      = " ¹" // promised
	noTokens      = " ²"
)

func (r *row) cells() []string {
	overlaps := r.times(func(v verdict) time.Duration { return v.overlap })
	overlapped := fmt.Sprint(len(overlaps)) + worst(overlaps)
	if len(overlaps) > 0 && r.fault.pauses {
		overlapped += byNobody
	}
	untold := notApplicable
	if r.fault.tells {
		late := r.times(func(v verdict) time.Duration {
			if v.never || !v.untold {
				return 0
			}
			return v.late
		})
		never := r.count(func(v verdict) bool { return v.never })
		untold = fmt.Sprint(len(late) + never)
		switch {
		case never > 0:
			untold += fmt.Sprintf(" (%d never)", never)
		case len(late) > 0:
			untold += fmt.Sprintf(" (%s to %s late)", seconds(late[0]), seconds(late[len(late)-1]))
		}
	}
	sent, accepted := notApplicable, notApplicable
	if n := r.sum(func(v verdict) int { return v.sent }); n > 0 || r.fault.tells {
		sent = fmt.Sprint(n)
		accepted = fmt.Sprint(r.sum(func(v verdict) int { return v.accepted }))
		if !r.peer.tokens && n > 0 {
			accepted += noTokens
		}
	}
	next := notApplicable
	if all := r.times(func(v verdict) time.Duration { return v.next }); len(all) > 0 {
		next = seconds(all[len(all)/2]) + worst(all)
	}
	return []string{
		r.fault.title, r.peer.id, fmt.Sprint(len(r.runs)), overlapped, untold,
		fmt.Sprint(r.count(func(v verdict) bool { return v.left })),
		fmt.Sprint(r.sum(func(v verdict) int { return v.sleeping })),
		sent, accepted, next,
	}
}

// worst returns the last of some times, in brackets.
func worst(sorted []time.Duration) string {
	if len(sorted) == 0 {
		return ""
	}
	return " (worst " + seconds(sorted[len(sorted)-1]) + ")"
}

func seconds(d time.Duration) string {
	if d < 100*time.Millisecond {
		return fmt.Sprint(max(1, d.Milliseconds()), " ms")
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

var heads = []string{
	"fault", "library", "runs", "overlapped", "not told", "left taken", "asleep",
	"stale writes sent", "accepted", "next holder after",
}

// print writes the table in Markdown, with what it means and what it was made of.
func (t *table) print(out io.Writer) error {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(heads)
	line(slices.Repeat([]string{"---"}, len(heads)))
	last := ""
	for _, r := range t.rows {
		cells := r.cells()
		if cells[0] == last {
			cells[0] = ""
		} else {
			last = cells[0]
		}
		line(cells)
	}
	waiters := waiterProcs * waitersOfProc
	fmt.Fprintf(&b, meanings, t.set.lease, waiters, waiterProcs, section, grace, tellSlack,
		leftSlack, waiters, t.set.asleep)
	b.WriteString("\nUsed as their documentation says:\n\n")
	for _, p := range t.peers() {
		fmt.Fprintf(&b, "- %s %s: %s.\n", p.id, version(p.module), p.how)
	}
	fmt.Fprintf(&b, "\ngo-redis %s and rueidis %s with their default options, %s, %s, %s/%s.\n",
		version("github.com/redis/go-redis/v9"), version("github.com/redis/rueidis"),
		t.server, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if t.repeated > 0 {
		fmt.Fprintf(&b, "\nRuns that were repeated, since the fault did not happen or there was no holder "+
			"then: %d.\n", t.repeated)
	}
	if all := t.problems(); len(all) > 0 {
		b.WriteString("\nErrors that are not of a lost hold:\n\n")
		for _, text := range all {
			fmt.Fprintf(&b, "- %s\n", text)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

const meanings = `
Leases of %v, renewed. One process has the lock. %d callers in %d other processes wait, and
each works for %v when it has the lock. The fault comes at a random moment, up to half a lease
after that.

- **overlapped**: runs in which two callers could believe at once that they had the lock: from when
  the call returns until unlock is called, the process is killed, or the loss is told, less %v
  for hearing of it.
- **not told**: runs in which the holder heard of its loss more than %v after the lock was gone
  in Redis (if it was frozen: after it was thawed).
- **left taken**: runs in which one owner had the lock in Redis for its lease and more than %v
  after the fault.
- **asleep**: waiters, of %d in a run, that still waited when the lock had been free for %v.
- **stale writes sent**: writes to a store after one of a later holder, in all runs.
  **accepted**: by the store, which refuses a token smaller than the largest that it has seen.
- **next holder after**: from the fault (of a waiter that is killed: from the unlock) until a caller
  has the lock: the median, and the worst.
- –: does not apply. The holder is dead, or was not to lose the lock.
- ¹ Promised by no library: a lease does not stop a process that is paused between its last look and
  its write.
- ² The library has no tokens, so the store cannot tell.
`

// problems returns the errors of the workers, each with its number.
func (t *table) problems() (all []string) {
	for _, r := range t.rows {
		count := make(map[string]int)
		var order []string
		for _, v := range r.runs {
			for _, text := range v.problems {
				if count[text]++; count[text] == 1 {
					order = append(order, text)
				}
			}
		}
		for _, text := range order {
			all = append(all, fmt.Sprintf("%s, %d times: %s", r.name(), count[text], text))
		}
	}
	return all
}

func (t *table) peers() (all []*peer) {
	for _, r := range t.rows {
		if !slices.Contains(all, r.peer) {
			all = append(all, r.peer)
		}
	}
	return all
}

// version returns the version of a module in this program.
func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return "of unknown version"
	}
	for _, d := range info.Deps {
		if d.Path == module && d.Replace == nil {
			return d.Version
		}
	}
	return "of this tree"
}
