package faults_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func init() { kit.Roles["faults-worker"] = faultsWorker }

// Workers are processes that lock and unlock one lock all the time, at random either
// side if it has two, and write down what was certain of their holds, on the clock that
// all processes share:
//
//	b <hold> <time> <token> <deadline>   Lock has returned; the token is -1 of a reader
//	d <hold> <deadline>                  a renewal has moved the deadline
//	t <hold> <time>                      Done has told of its loss
//	e <hold> <time>                      Unlock is called
//	l <hold>                             and says that it was lost
//
// The process may be killed between any two of them.
type worker struct {
	kind       string // "Mutex", "FairMutex", "RWMutex"
	goroutines int
	lease      time.Duration
	tenure     time.Duration
	slow       int           // percent of the holds that take up to one and a half leases
	section    time.Duration // how long each hold takes instead, unless it is 0
	rest       time.Duration // between two holds
	hogs       int           // goroutines that do nothing but use the only processor
	sloppy     bool          // a seeded bug: it takes a hold for certain until it calls Unlock
}

const workerFormat = "%s %d %d %d %d %d %d %d %t"

func (w worker) String() string {
	return fmt.Sprintf(workerFormat, cmp.Or(w.kind, "Mutex"), w.goroutines, w.lease, w.tenure, w.slow, w.section, w.rest, w.hogs, w.sloppy)
}

func faultsWorker(args []string) {
	var w worker
	var lease, tenure, section, rest int64
	_, err := fmt.Sscanf(args[2], workerFormat, &w.kind, &w.goroutines, &lease, &tenure, &w.slow, &section, &rest, &w.hogs, &w.sloppy)
	kit.ChildCheck(err)
	w.lease, w.tenure, w.section, w.rest = time.Duration(lease), time.Duration(tenure), time.Duration(section), time.Duration(rest)
	stop, cancel := context.WithCancel(kit.Background)
	go func() { // the first line of input ends the work
		_, _ = os.Stdin.Read(make([]byte, 1))
		cancel()
	}()
	if w.hogs > 0 {
		runtime.GOMAXPROCS(1)
		for range w.hogs {
			go func() {
				for stop.Err() == nil {
				}
			}()
		}
	}
	s, _ := kit.ChildSession(args[0], relock.WithLease(w.lease), relock.WithTenure(w.tenure))
	fmt.Println("ready", s.ID())
	var n atomic.Int64
	kit.ChildCheck(kit.Together(w.goroutines, func(int) error {
		sides := w.sides(s, args[1])
		for stop.Err() == nil {
			if err := w.round(stop, sides[rand.N(len(sides))], n.Add(1)); err != nil && stop.Err() == nil {
				return err
			}
			time.Sleep(w.rest)
		}
		return nil
	}))
}

// sides returns what a goroutine locks.
func (w worker) sides(s *relock.Session, name string) []kit.FencedLocker {
	switch w.kind {
	case "FairMutex":
		return []kit.FencedLocker{s.FairMutex(name)}
	case "RWMutex":
		rw := s.RWMutex(name)
		return []kit.FencedLocker{rw, readSide{rw.RLocker(), rw}}
	}
	return []kit.FencedLocker{s.Mutex(name)}
}

// readSide tells of the read side what other locks tell.
type readSide struct {
	relock.Locker
	rw *relock.RWMutex
}

func (r readSide) FencingToken() int64 { return aReader }

func (r readSide) Deadline() (time.Time, bool) { return peek.ReadDeadline(r.rw) }

// round locks, has the lock for a while, and unlocks.
func (w worker) round(ctx context.Context, m kit.FencedLocker, n int64) error {
	if err := m.Lock(ctx); err != nil {
		return err
	}
	from := rawNow()
	deadline := w.deadline(m, 0)
	say("b %d %d %d %d", n, from, m.FencingToken(), deadline)
	d := rand.N(300 * time.Microsecond)
	if rand.N(100) < w.slow {
		d = rand.N(w.lease * 3 / 2)
	}
	if w.section > 0 {
		d = w.section
	}
	done := m.Done()
	for end := time.Now().Add(d); time.Now().Before(end); {
		var told bool
		select {
		case <-done:
			told = true
		case <-time.After(min(d, w.lease/30)):
		}
		if moved := w.deadline(m, deadline); moved != deadline {
			deadline = moved
			say("d %d %d", n, deadline)
		}
		if told && !w.sloppy {
			say("t %d %d", n, rawNow())
			break
		}
	}
	// What is written before the call is what another process must not see before.
	say("e %d %d", n, rawNow())
	err := m.Unlock(kit.Background)
	if errors.Is(err, relock.ErrLost) {
		say("l %d", n)
	}
	return kit.LostOrNil(err)
}

// deadline returns the local deadline by the clock that all processes share, or what
// it was if the hold has ended. The clock is read first: if the process is frozen in
// between the result is too early.
func (w worker) deadline(m kit.FencedLocker, was time.Duration) time.Duration {
	if w.sloppy {
		return 1 << 62
	}
	now := rawNow()
	if d, ok := m.Deadline(); ok {
		return now + time.Until(d)
	}
	return was
}

// say writes a line in one piece, whatever happens to the process.
func say(format string, args ...any) {
	line := make([]byte, 0, 128)
	for _, word := range strings.Split(format, "%d") {
		line = append(line, word...)
		if len(args) > 0 {
			switch n := args[0].(type) {
			case int64:
				line = strconv.AppendInt(line, n, 10)
			case time.Duration:
				line = strconv.AppendInt(line, int64(n), 10)
			}
			args = args[1:]
		}
	}
	_, _ = os.Stdout.Write(append(line, '\n'))
}

// workerProc is a worker as its test sees it.
type workerProc struct {
	*redistest.Proc
	name    string
	session string
	killed  time.Duration // when it was going to be killed; 0 if it was not
}

func startWorker(t testing.TB, name string, at kit.Addressed, lock string, w worker) *workerProc {
	t.Helper()
	p := &workerProc{name: name}
	p.Proc = redistest.Child(t, "faults-worker", at.Addr(), lock, w.String())
	var err error
	p.session, err = p.Expect("ready ", kit.Soon)
	require.NoError(t, err)
	return p
}

// kill ends the process in the midst of what it does.
func (p *workerProc) kill() {
	p.killed = rawNow()
	p.Kill()
}

// stop lets the process end in good order.
func (p *workerProc) stop(t testing.TB) {
	t.Helper()
	require.NoError(t, p.Send("stop"))
	ended := kit.Async(p.Wait)
	require.NoError(t, kit.Receive(t, ended, p.name+" to end"))
}

// workRecord is what a process has written down.
type workRecord struct {
	holds []certainHold
	lost  int           // of which so many were lost
	late  time.Duration // how long after the deadline Done told of that, at most
}

// report returns the record of a process that has ended.
func (p *workerProc) report(t testing.TB) (r workRecord) {
	t.Helper()
	open := make(map[string]*certainHold)
	until := make(map[string]time.Duration)
	for {
		line, err := p.Line(kit.Soon)
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		f := bytes.Fields([]byte(line))
		id, kind := string(f[1]), string(f[0])
		number := func(i int) time.Duration {
			n, err := strconv.ParseInt(string(f[i]), 10, 64)
			require.NoError(t, err, line)
			return time.Duration(n)
		}
		switch kind {
		case "b":
			open[id] = &certainHold{who: p.name, from: number(2), token: int64(number(3))}
			until[id] = number(4)
		case "d":
			until[id] = max(until[id], number(2))
		case "t":
			r.late = max(r.late, number(2)-until[id])
		case "e":
			h := open[id]
			h.to = min(number(2), until[id])
			r.holds = append(r.holds, *h)
			delete(open, id)
		case "l":
			r.lost++
		}
	}
	for id, h := range open { // killed while it held
		require.NotZero(t, p.killed, "%s has ended by itself", p.name)
		h.to = min(p.killed, until[id])
		r.holds = append(r.holds, *h)
	}
	return r
}

// idle returns the longest times for which nobody held the lock for certain, longest
// first.
func idle(holds []certainHold) []time.Duration {
	holds = slices.Clone(holds)
	slices.SortFunc(holds, func(a, b certainHold) int { return cmp.Compare(a.from, b.from) })
	var gaps []time.Duration
	var last time.Duration
	for i, h := range holds {
		if i > 0 && h.from > last {
			gaps = append(gaps, h.from-last)
		}
		last = max(last, h.to)
	}
	slices.Sort(gaps)
	slices.Reverse(gaps)
	return gaps
}
