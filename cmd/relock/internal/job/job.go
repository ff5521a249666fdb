package job

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// A Job is a command and the lock that it runs under.
type Job struct {
	Path string   // of the program
	Args []string // with the program's name first
	Env  []string

	Signals  <-chan os.Signal              // of the user, for the group: see [Signals]
	Lost     <-chan struct{}               // closed when the lock is lost
	Wanted   <-chan struct{}               // closed when the group is told to end, since somebody else wants the lock; or nil
	Held     func() bool                   // whether the lock is still held, asked after a stop
	Deadline func() (time.Time, bool)      // until when the lock is certain, if that is known
	Lead     time.Duration                 // how long before the deadline the group is told to end, if there is time
	MaxHold  time.Time                     // when the command must have ended; zero: never
	Grace    time.Duration                 // from TERM to KILL
	Report   func(format string, a ...any) // what the user should know

	Signalled bool // set by Run: the command was told to end
}

// Signals are those that are passed on. One that was ignored when the program started, as by
// nohup, stays ignored for the command too.
func Signals() (c <-chan os.Signal, stop func()) {
	all := make(chan os.Signal, 8)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) {
			signal.Notify(all, s)
		}
	}
	return all, func() { signal.Stop(all) }
}

// Status returns the exit status by which a shell tells of a signal.
func Status(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return 1
}

// Run starts the command and blocks until it has ended; if its group was signalled, until
// the group has. It returns the exit status of the command, or an error if it could not be
// started.
func (j *Job) Run() (status int, err error) {
	adoptOrphans()
	g, err := startGuard()
	if err != nil {
		return 0, err
	}
	defer g.dismiss()
	t := openTerminal()
	defer t.close()
	p, err := start(j, t)
	t.ignoreBackground()
	if err != nil {
		t.take(0)
		return 0, err
	}
	g.watch(p.group)
	s := &supervisor{job: j, process: p, terminal: t, stops: make(chan os.Signal, 1), status: 255}
	if !signal.Ignored(syscall.SIGTSTP) {
		signal.Notify(s.stops, syscall.SIGTSTP)
		defer signal.Stop(s.stops)
	}
	s.supervise()
	j.Signalled = s.signalled
	t.take(p.group)
	return s.status, nil
}
