package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// workerEnv makes this program a worker. Its value is a job.
const workerEnv = "RELOCK_BENCH_WORKER"

// job is what a worker is started for.
type job struct {
	Proxy  *proxyJob `json:",omitempty"` // to be a proxy, and nothing else
	Peer   string
	Addr   string
	Lease  time.Duration
	Shared string // file of the shared memory

	Threads int // for Go code, if not as many as there are processors
}

// worker is the worker's side: one library, and what it has locked.
type worker struct {
	job    job
	peer   *peer
	lib    library
	shared *shared
	held   map[string]mutex // by lock, until free
	kept   context.CancelCauseFunc
	values map[string]mutex // of roam, by lock
	many   *holdings
}

var actions = map[string]func(*worker, *task) outcome{
	"pairs": (*worker).pairs,
	"race":  (*worker).race,
	"herd":  (*worker).herd,
	"roam":  (*worker).roam,
	"lock":  (*worker).lock,
	"free":  (*worker).free,
	"hold":  (*worker).hold,
	"spend": (*worker).spend,
	"drop":  (*worker).drop,
	"churn": (*worker).churn,
	"state": (*worker).state,
}

// runWorker obeys tasks until its input ends, which it does when the main process
// ends. It returns the exit status.
func runWorker(env string, in io.Reader, out io.Writer) int {
	var j job
	if err := json.Unmarshal([]byte(env), &j); err != nil {
		return say(fmt.Errorf("%s: %w", workerEnv, err))
	}
	lines := make(chan []byte)
	go func() {
		r := bufio.NewReader(in)
		for {
			line, err := r.ReadBytes('\n')
			if err != nil {
				os.Exit(0) // whatever the library is doing
			}
			lines <- line
		}
	}()
	if j.Proxy != nil {
		return say(j.Proxy.serve(out))
	}
	w := &worker{job: j, peer: peerByID(j.Peer), held: make(map[string]mutex), values: make(map[string]mutex)}
	if w.peer == nil {
		return say(fmt.Errorf("no peer %q", j.Peer))
	}
	answers := json.NewEncoder(out)
	answer := func(o outcome) int {
		if err := answers.Encode(o); err != nil {
			return say(err)
		}
		return 0
	}
	if err := w.open(); err != nil {
		return answer(outcome{Fatal: err.Error()})
	}
	answer(outcome{})
	for line := range lines {
		var t task
		if err := json.Unmarshal(line, &t); err != nil {
			return say(err)
		}
		act := actions[t.Do]
		if act == nil {
			return say(fmt.Errorf("no action %q", t.Do))
		}
		if status := answer(act(w, &t)); status != 0 {
			return status
		}
	}
	return 0
}

func (w *worker) open() (err error) {
	if w.shared, err = openShared(w.job.Shared); err != nil {
		return err
	}
	w.lib, err = w.peer.connect(w.job.Addr, w.job.Lease)
	return err
}

func say(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	return 1
}

// state tells what the worker has.
func (w *worker) state(*task) outcome { return outcome{Has: stateNow()} }

// sides returns what a task locks: the mutex of a name, or one side of a lock of
// readers and writers if the library has them.
func (w *worker) sides(t *task, name string) mutex {
	if rw, ok := w.lib.(readWriter); ok && t.Side != "" {
		read, write := rw.readWrite(name)
		if t.Side == "read" {
			return read
		}
		return write
	}
	return w.lib.mutex(name)
}
