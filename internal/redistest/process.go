package redistest

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// stopWithin bounds the wait for a process to have stopped.
const stopWithin = 5 * time.Second

var errNotRunning = errors.New("redistest: the process is not running")

// A process is a child process that is always reaped.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the child is reaped and its output is read
	err  error         // what Wait returned; written before done is closed
}

// startProcess starts cmd. One goroutine starts the child and reaps it: on
// Linux the child dies with the *thread* that forked it, so that goroutine keeps
// its thread for as long as the child lives.
func startProcess(cmd *exec.Cmd) (*process, error) {
	dieWithParent(cmd)
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("redistest: start: %w", err)
	}
	return p, nil
}

// pid returns the child's process id.
func (p *process) pid() int { return p.cmd.Process.Pid }

// running reports whether the child has not been reaped yet.
func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// awake reports whether the child runs and is not frozen.
func (p *process) awake() bool { return p.running() && !stopped(p.pid()) }

// freeze sends SIGSTOP and waits until every thread of the child has stopped.
func (p *process) freeze() error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	if !poll(stopWithin, func() bool { return stopped(p.pid()) || !p.running() }) {
		return fmt.Errorf("redistest: process %d did not stop within %v", p.pid(), stopWithin)
	}
	if !p.running() {
		return errNotRunning
	}
	return nil
}

// thaw sends SIGCONT. A child that is not frozen does not notice.
func (p *process) thaw() error { return p.signal(syscall.SIGCONT) }

// kill sends SIGKILL and waits until the child is reaped. A frozen child dies
// without running another instruction. Killing a dead child does nothing.
func (p *process) kill() {
	// The only error is that the child is gone already.
	_ = p.signal(syscall.SIGKILL)
	<-p.done
}

func (p *process) signal(sig syscall.Signal) error {
	if !p.running() {
		return errNotRunning
	}
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("redistest: signal %v: %w", sig, err)
	}
	return nil
}
