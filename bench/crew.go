package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// hand is the main process's side of a worker.
type hand struct {
	peer  *peer
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan []byte // closed at the end of its output
	dead  error       // why it is of no use any more
}

const startWithin = 30 * time.Second

// startHand starts a worker. It is to be ended by end.
func startHand(j job) (*hand, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	env, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	h := &hand{peer: peerByID(j.Peer), cmd: exec.Command(self), lines: make(chan []byte, 1)}
	h.cmd.Env = append(os.Environ(), workerEnv+"="+string(env))
	if j.Threads > 0 {
		h.cmd.Env = append(h.cmd.Env, fmt.Sprint("GOMAXPROCS=", j.Threads))
	}
	h.cmd.Stderr = os.Stderr
	if h.in, err = h.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := h.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(h.lines)
		for r := bufio.NewReader(out); ; {
			line, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			h.lines <- line
		}
	}()
	return h, nil
}

// end ends the worker and returns when it is gone.
func (h *hand) end() {
	_ = h.in.Close() // upon which it exits
	kill := time.AfterFunc(time.Second, func() { _ = h.cmd.Process.Kill() })
	defer kill.Stop()
	for range h.lines { // what it still says
	}
	_ = h.cmd.Wait() // how it ended makes no difference
}

// do has a task done.
func (h *hand) do(t *task) (outcome, error) {
	if err := h.begin(t); err != nil {
		return outcome{}, err
	}
	return h.answer(patience(t))
}

// patience is how long to wait for the answer to a task. The worker's own watchdog
// gives up long before.
func patience(t *task) time.Duration { return t.Span + t.Limit + t.Stuck + hungAfter + 30*time.Second }

func (h *hand) begin(t *task) error {
	if h.dead != nil {
		return h.dead
	}
	line, err := json.Marshal(t)
	if err == nil {
		_, err = h.in.Write(append(line, '\n'))
	}
	return err
}

// answer returns the outcome of what was begun. A worker that does not answer is
// killed; it, and one with goroutines that hang, has no more tasks.
func (h *hand) answer(within time.Duration) (o outcome, err error) {
	line, err := h.line(within)
	if err != nil {
		return o, err
	}
	if err := json.Unmarshal(line, &o); err != nil {
		return o, fmt.Errorf("answer of a worker: %w", err)
	}
	if o.Fatal != "" {
		return o, fmt.Errorf("worker: %s", o.Fatal)
	}
	if o.Hung > 0 {
		h.dead = fmt.Errorf("%d goroutines did not return when their contexts were cancelled", o.Hung)
	}
	return o, nil
}

// line returns the worker's next line.
func (h *hand) line(within time.Duration) ([]byte, error) {
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	select {
	case line, ok := <-h.lines:
		if !ok {
			h.dead = fmt.Errorf("its process ended")
			return nil, h.dead
		}
		return line, nil
	case <-timeout.C:
		h.dead = fmt.Errorf("no answer within %v: killed", within)
		_ = h.cmd.Process.Kill() // it is waited for by end
		return nil, h.dead
	}
}
