package job

import (
	"errors"
	"os"
	"runtime"
	"syscall"
)

const shell = "/bin/sh"

// process is the command. Its group has its process id.
type process struct {
	group  int
	events chan event // closed after the command's end
}

// event is a change of the command: it has stopped, or ended.
type event struct {
	stopped syscall.Signal // by which it has stopped; 0 if it has ended
	status  int
	killed  syscall.Signal // by which it has ended; 0 if it has by itself
}

// start starts the command in the foreground of the terminal if the user faces it there, else
// in the background: if it then wants the terminal, it stops and gets it.
func start(j *Job, t *terminal) (*process, error) {
	attr := &os.ProcAttr{
		Env:   j.Env,
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	}
	if t.given = t.interactive(); t.given {
		attr.Sys.Foreground, attr.Sys.Ctty = true, t.fd()
	}
	dieWithParent(attr.Sys)
	p := &process{events: make(chan event, 1)}
	started := make(chan error)
	go func() { // ends with the command
		// The parent whose death the kernel watches is the thread, so it must live as long.
		runtime.LockOSThread()
		child, err := os.StartProcess(j.Path, j.Args, attr)
		if errors.Is(err, syscall.ENOEXEC) { // perhaps a script without #!, for which execvp has this
			child, err = os.StartProcess(shell, append([]string{shell, j.Path}, j.Args[1:]...), attr)
		}
		if err != nil {
			started <- err
			return
		}
		p.group = child.Pid
		_ = child.Release()
		started <- nil
		p.wait()
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// wait reports what happens to the command until it has ended. This process also inherits
// orphans, so it waits for all children.
func (p *process) wait() {
	defer close(p.events)
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return
		case pid != p.group:
		case ws.Stopped():
			p.events <- event{stopped: ws.StopSignal()}
		case ws.Signaled():
			p.events <- event{status: Status(ws.Signal()), killed: ws.Signal()}
			return
		case ws.Exited():
			p.events <- event{status: ws.ExitStatus()}
			return
		}
	}
}

// signal sends a signal to the group. One that has stopped must continue to act on it.
func (p *process) signal(s syscall.Signal) {
	_ = syscall.Kill(-p.group, s)
	if s != syscall.SIGTSTP {
		p.resume()
	}
}

// resume lets the group go on, once: it may be stopped again at any time after that.
func (p *process) resume() { _ = syscall.Kill(-p.group, syscall.SIGCONT) }

// gone reports whether no process of the group is left. The group's id cannot have another
// meaning before that.
func (p *process) gone() bool {
	var ws syscall.WaitStatus
	for { // orphans that it inherited: a zombie still counts
		if pid, err := syscall.Wait4(-p.group, &ws, syscall.WNOHANG, nil); pid <= 0 || err != nil {
			break
		}
	}
	return syscall.Kill(-p.group, 0) == syscall.ESRCH
}
