package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// A proc is the main process's side of a worker.
type proc struct {
	n   int // which of its stage
	cmd *exec.Cmd
	in  io.WriteCloser

	read sync.WaitGroup // all that it says is read
	once sync.Once
}

// startProc starts a worker. hear gets what it says, one event at a time.
func startProc(n int, j job, hear func(n int, e event)) (*proc, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	env, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	p := &proc{n: n, cmd: exec.Command(self)}
	p.cmd.Env = append(os.Environ(), workerEnv+"="+string(env))
	p.cmd.Stderr = io.Discard // libraries log what the table counts
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.read.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var e event
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				e = event{What: broken, Text: fmt.Sprintf("%q: %v", lines.Bytes(), err)}
			}
			hear(n, e)
		}
	})
	return p, nil
}

func (p *proc) tell(o order) error {
	line, err := json.Marshal(o)
	if err == nil {
		_, err = p.in.Write(append(line, '\n'))
	}
	return err
}

// freeze and thaw stop the process and let it go on.
func (p *proc) freeze() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *proc) thaw() error   { return p.cmd.Process.Signal(syscall.SIGCONT) }

// kill ends the process, frozen or not, and returns when it is gone and all is read.
func (p *proc) kill() {
	p.once.Do(func() {
		_ = p.cmd.Process.Kill() // fails if it is gone already
		p.read.Wait()
		_ = p.cmd.Wait() // it was killed
		_ = p.in.Close()
	})
}
