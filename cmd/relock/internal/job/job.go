package job

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// A Job is a command and the lock that it runs under.
type Job struct {
	Path  string   // of the program
	Args  []string // with the program's name first
	Env   []string
	Guard *Guard

	Signals  <-chan os.Signal              // of the user, for the group: see [Signals]
	Lost     <-chan struct{}               // closed when the lock is lost
	Wanted   <-chan struct{}               // closed when the group is told to end, since somebody else wants the lock; or nil
	Held     func() bool                   // whether the lock is still held, asked after a stop
	Deadline func() (time.Time, bool)      // until when the lock is certain, if that is known
	Why      func() string                 // why the lock is lost, or not valid for longer
	Lead     time.Duration                 // how long before the deadline the group is told to end, if there is time
	MaxHold  time.Time                     // when the command must have ended; zero: never
	Grace    time.Duration                 // from TERM to KILL
	Report   func(format string, a ...any) // what the user should know

	// Set by Run.
	Signalled bool           // the command was told to end
	LostLock  bool           // the lock was lost, or not confirmed in time, while the command ran
	Killed    syscall.Signal // what killed the command, if it was not this process's decision
}

// passedOn are the signals that are passed on. One that was ignored when the program started, as by
// nohup, stays ignored for the command too.
func passedOn() []os.Signal {
	all := []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}
	return slices.DeleteFunc(all, signal.Ignored)
}

// Signals receives the signals that are passed on.
func Signals() (c <-chan os.Signal, stop func()) {
	all := make(chan os.Signal, 8)
	for _, s := range passedOn() {
		signal.Notify(all, s)
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
	if err := <-j.Guard.ready; err != nil {
		return 0, err
	}
	adoptOrphans()
	t := openTerminal()
	defer t.close()
	p, err := start(j, t)
	t.ignoreBackground()
	if err != nil {
		t.take(0)
		return 0, err
	}
	j.Guard.join(p.group)
	s := &supervisor{job: j, process: p, terminal: t, status: 255}
	if !signal.Ignored(syscall.SIGTSTP) {
		s.stops = make(chan os.Signal, 1)
		signal.Notify(s.stops, syscall.SIGTSTP)
		defer signal.Stop(s.stops)
	}
	s.supervise()
	j.Signalled, j.LostLock = s.signalled, s.lost || s.unconfirmed
	if !s.decided {
		j.Killed = s.killedBy
	}
	t.take(p.group)
	return s.status, nil
}
