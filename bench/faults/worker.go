package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// workerEnv makes this program a worker. Its value is a job.
const workerEnv = "RELOCK_FAULTS_WORKER"

// A job is what a worker is started for.
type job struct {
	Peer  string
	Addr  string
	Lease time.Duration
	Name  string // of the lock
}

// An order is a line to a worker. The first to come makes its goroutines lock, each once.
type order struct {
	Lock    int           // goroutines; 0: end the sections that are open
	Section time.Duration // how long each works; 0: until it is told to end, or of a loss
}

// step is how long a holder works between a look at whether it has lost the lock and its write.
const step = 50 * time.Millisecond

// An event is a line from a worker.
type event struct {
	What  string // see below
	G     int    // goroutine
	At    int64  // by monotonic
	Token int64
	Text  string
}

// What happened.
const (
	ready   = "ready"   // the worker is connected
	calls   = "calls"   // lock is called
	enters  = "enters"  // lock has returned: a section begins
	writes  = "writes"  // to the store
	told    = "told"    // of a loss
	leaves  = "leaves"  // the section ends: unlock is called
	unlocks = "unlocks" // unlock has returned; Text is its error
	fails   = "fails"   // lock has failed; Text is its error
	broken  = "broken"  // the worker cannot work; Text says why
)

type worker struct {
	job  job
	lib  locker
	end  chan struct{} // closed when open sections are to end
	once sync.Once

	mu  sync.Mutex // protects out
	out io.Writer
}

// runWorker obeys orders until its input ends, as it does when the main process ends.
func runWorker(env string, in io.Reader, out io.Writer) {
	w := &worker{end: make(chan struct{}), out: out}
	if err := w.open(env); err != nil {
		w.say(event{What: broken, Text: err.Error()})
		return
	}
	w.say(event{What: ready})
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			w.say(event{What: broken, Text: err.Error()})
			return
		}
		if o.Lock == 0 {
			w.once.Do(func() { close(w.end) })
		}
		for g := range o.Lock {
			go w.lock(g, o.Section)
		}
	}
}

// open connects the library, and locks something once: so scripts are in Redis before a fault.
func (w *worker) open(env string) error {
	if err := json.Unmarshal([]byte(env), &w.job); err != nil {
		return err
	}
	p := peerByID(w.job.Peer)
	if p == nil {
		return fmt.Errorf("no peer %q", w.job.Peer)
	}
	var err error
	if w.lib, err = p.connect(w.job.Addr, w.job.Lease); err != nil {
		return err
	}
	h, err := w.lib.lock(context.Background(), fmt.Sprint("warm-up-", os.Getpid()))
	if err != nil {
		return err
	}
	return h.unlock()
}

// lock is what a holder does: it waits for the lock, and while it has it, looks whether it has
// lost it, works for a step, and writes.
func (w *worker) lock(g int, section time.Duration) {
	w.say(event{What: calls, G: g})
	h, err := w.lib.lock(context.Background(), w.job.Name)
	if err != nil {
		w.say(event{What: fails, G: g, Text: err.Error()})
		return
	}
	w.say(event{What: enters, G: g, Token: h.token()})
	left := make(chan struct{})
	tell := sync.OnceFunc(func() { w.say(event{What: told, G: g}) })
	go func() {
		select {
		case <-left:
		case <-h.lost():
			select {
			case <-left: // the end that unlock makes is no loss
			default:
				tell()
			}
		}
	}()
	if w.work(g, section, h) {
		tell()
	}
	w.say(event{What: leaves, G: g})
	close(left)
	var text string
	if err := h.unlock(); err != nil {
		text = err.Error()
	}
	w.say(event{What: unlocks, G: g, Text: text})
}

// work works until the section is over, or reports that the lock is lost.
func (w *worker) work(g int, section time.Duration, h hold) (lost bool) {
	over := w.end
	if section > 0 {
		over = make(chan struct{})
		defer time.AfterFunc(section, func() { close(over) }).Stop()
	}
	for {
		select {
		case <-over:
			return false
		case <-h.lost():
			return true
		default:
		}
		time.Sleep(step)
		w.say(event{What: writes, G: g, Token: h.token()})
	}
}

// say writes an event with the time of now. It is one write to a pipe, which is not torn.
func (w *worker) say(e event) {
	e.At = monotonic()
	line, err := json.Marshal(e)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		_, err = w.out.Write(append(line, '\n'))
	}
	if err != nil && !errors.Is(err, io.ErrClosedPipe) {
		os.Exit(1) // the main process is gone
	}
}

// monotonic returns the time by a clock that all processes of a machine share, in nanoseconds.
func monotonic() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // fails for bad arguments only
	return ts.Nano()
}
