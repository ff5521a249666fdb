package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/test/spec"
	"github.com/stretchr/testify/require"
)

func init() { kit.Roles["faults-worker"] = faultsWorker }

// Workers are processes that lock and unlock one lock all the time, at random either
// side if it has two, and write down what was certain of their holds, on the clock that
// all processes share:
//
//	b <hold> <time> <token> <deadline> <hold id>   Lock has returned
//	e <hold> <time>                                Unlock is called, or the deadline was earlier
//
// The process may be killed between any two of them.
type worker struct {
	Kind       string // "Mutex", "FairMutex", "RWMutex", "Redlock"
	Goroutines int
	Lease      time.Duration
	Tenure     time.Duration
	Slow       int  // percent of the holds that take up to one and a half leases
	Hogs       int  // goroutines that do nothing but use the only processor
	Sloppy     bool // a seeded bug: it takes a hold for certain until it calls Unlock
	Traced     bool // its scripts say what they do
}

func faultsWorker(args []string) { // worker, name, addresses
	var w worker
	kit.ChildCheck(json.Unmarshal([]byte(args[0]), &w))
	stop, cancel := context.WithCancel(kit.Background)
	go func() { // the first line of input ends the work
		_, _ = os.Stdin.Read(make([]byte, 1))
		cancel()
	}()
	if w.Hogs > 0 {
		runtime.GOMAXPROCS(1)
		for range w.Hogs {
			go func() {
				for stop.Err() == nil {
				}
			}()
		}
	}
	if w.Traced {
		s, client := kit.ChildSession(args[2])
		peek.ChangeScripts(s, spec.Traced)
		_ = s.Close(kit.Background)
		client.Close()
	}
	var sessions []*relock.Session
	for _, addr := range args[2:] {
		s, _ := kit.ChildSession(addr, relock.WithLease(w.Lease), relock.WithTenure(w.Tenure))
		sessions = append(sessions, s)
	}
	fmt.Println("ready", sessions[0].ID())
	var n atomic.Int64
	kit.ChildCheck(kit.Together(w.Goroutines, func(int) error {
		sides := w.sides(sessions, args[1])
		for stop.Err() == nil {
			if err := w.round(stop, sides[rand.N(len(sides))], n.Add(1)); err != nil && stop.Err() == nil {
				return err
			}
		}
		return nil
	}))
}

// A side is what a goroutine locks.
type side struct {
	acquire func(ctx context.Context) (*relock.Hold, error)
	reads   bool
}

// sides returns what a goroutine locks.
func (w worker) sides(sessions []*relock.Session, name string) []side {
	s := sessions[0]
	switch w.Kind {
	case "FairMutex":
		return []side{{s.FairMutex(name).Acquire, false}}
	case "RWMutex":
		rw := s.RWMutex(name)
		return []side{{rw.Acquire, false}, {rw.RAcquire, true}}
	case "Redlock":
		return []side{{relock.NewRedlock(sessions, name).Acquire, false}}
	}
	return []side{{s.Mutex(name).Acquire, false}}
}

// round locks, has the lock for a while, and unlocks.
func (w worker) round(ctx context.Context, l side, n int64) error {
	h, err := l.acquire(ctx)
	if err != nil {
		return err
	}
	from, until, token := rawNow(), w.deadline(h, 0), h.Token()
	if l.reads {
		token = aReader
	}
	id := ""
	if w.Traced {
		id = peek.HoldID(h)
	}
	fmt.Printf("b %d %d %d %d %s\n", n, from, token, until, id)
	d := rand.N(300 * time.Microsecond)
	if rand.N(100) < w.Slow {
		d = rand.N(w.Lease * 3 / 2)
	}
	done, told := h.Done(), false
	for end := time.Now().Add(d); time.Now().Before(end) && (!told || w.Sloppy); {
		select {
		case <-done:
			told = true
		case <-time.After(min(d, w.Lease/30)):
		}
		until = max(until, w.deadline(h, until))
	}
	// What is written before the call is what another process must not see before.
	fmt.Printf("e %d %d\n", n, min(rawNow(), until))
	if err := h.Unlock(kit.Background); w.Kind != "Redlock" { // a majority of its servers may be away
		return kit.LostOrNil(err)
	}
	return nil
}

// deadline returns the local deadline by the clock that all processes share, or what
// it was if the hold has ended. The clock is read first: if the process is frozen in
// between the result is too early.
func (w worker) deadline(h *relock.Hold, was time.Duration) time.Duration {
	if w.Sloppy {
		return 1 << 62
	}
	now := rawNow()
	if d, ok := h.Deadline(); ok {
		return now + time.Until(d)
	}
	return was
}

func rawNow() time.Duration { return time.Duration(kit.Monotonic()) }

// workerProc is a worker as its test sees it.
type workerProc struct {
	*redistest.Proc
	name    string
	session string
	killed  time.Duration // when it was going to be killed; 0 if it was not
	ended   <-chan error  // when all that it has written was read

	mu    sync.Mutex // protects following
	open  map[int64]certainHold
	holds []certainHold
}

func startWorker(t testing.TB, name string, w worker, at ...kit.Addressed) *workerProc {
	t.Helper()
	text, err := json.Marshal(w)
	require.NoError(t, err)
	args := []string{string(text), "it"}
	for _, a := range at {
		args = append(args, a.Addr())
	}
	p := &workerProc{name: name, open: make(map[int64]certainHold)}
	p.Proc = redistest.Child(t, "faults-worker", args...)
	p.session, err = p.Expect("ready ", kit.Soon)
	require.NoError(t, err)
	p.ended = kit.Async(p.read)
	return p
}

// read takes down what the process writes.
func (p *workerProc) read() error {
	for {
		line, err := p.Line(time.Hour)
		if err != nil {
			return p.Wait()
		}
		kind, text, _ := strings.Cut(line, " ")
		var n, token int64
		var at, until time.Duration
		var id string
		_, _ = fmt.Sscan(text, &n, (*int64)(&at), &token, (*int64)(&until), &id)
		p.mu.Lock()
		switch kind {
		case "b":
			p.open[n] = certainHold{who: p.name, from: at, to: until, token: token, id: id}
		case "e":
			h := p.open[n]
			h.to = at
			p.holds = append(p.holds, h)
			delete(p.open, n)
		}
		p.mu.Unlock()
	}
}

// count returns how many holds have ended.
func (p *workerProc) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.holds)
}

// kill ends the process in the midst of what it does.
func (p *workerProc) kill() {
	p.killed = rawNow()
	p.Kill()
}

// stop lets the process end in good order if it has not been killed, and returns its holds.
func (p *workerProc) stop(t testing.TB) []certainHold {
	t.Helper()
	if p.killed == 0 {
		require.NoError(t, p.Send("stop"))
	}
	if err := kit.Receive(t, p.ended, p.name+" to end"); p.killed == 0 {
		require.NoError(t, err)
		require.Empty(t, p.open)
	}
	for _, h := range p.open {
		h.to = min(p.killed, h.to)
		p.holds = append(p.holds, h)
	}
	p.open = nil
	return p.holds
}

// goOn waits until each worker has had so many holds more.
func goOn(t testing.TB, when string, n int, workers ...*workerProc) {
	t.Helper()
	for _, w := range workers {
		before := w.count()
		redistest.Eventually(t, kit.Soon, w.name+" to go on "+when, func() bool { return w.count() >= before+n })
	}
}
