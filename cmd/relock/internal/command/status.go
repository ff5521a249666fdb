package command

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/cmd/relock/internal/connect"
	"github.com/relock-go/relock/cmd/relock/internal/job"
	"github.com/relock-go/relock/cmd/relock/internal/locks"
)

// Exit statuses. Those from 64 on are of sysexits.h, as flock(1) uses them.
const (
	statusOK          = 0
	statusConflict    = 1  // run: the lock is taken, unless -E says otherwise
	statusFree        = 1  // inspect -q: one of the locks is free
	statusNothing     = 1  // unlock: nothing was done
	statusUsage       = 64 // the command line is wrong, or a run around this one has the lock
	statusNotLock     = 65 // the key holds something that is no lock
	statusUnavailable = 69 // Redis cannot be reached, or refuses
	statusSystem      = 71 // a process cannot be started, or the output not be written
	statusBusy        = 75 // the server or this host is too busy now
	statusCannotRun   = 126
	statusNoCommand   = 127
)

// exit ends the program with a status. Its error is shown if there is one.
type exit struct {
	status int
	err    error
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

// died ends the program by the signal that has ended its command, or its wait. A shell looks at
// that to tell whether the script around it is to end as well.
type died struct{ by syscall.Signal }

func (d *died) Error() string { return d.by.String() }

// Unwrap returns how it ends where the signal does not end it, as process 1.
func (d *died) Unwrap() error { return &exit{job.Status(d.by), nil} }

func usage(format string, a ...any) error { return fmt.Errorf(format, a...) }

// failed returns how the program ends after an error of the connection or of a lock.
func failed(err error) error {
	var known *exit
	if err == nil || errors.As(err, &known) {
		return err
	}
	status := statusUnavailable
	switch {
	case errors.As(err, new(*connect.AddressError)), errors.Is(err, relock.ErrName), errors.Is(err, relock.ErrOption):
		status = statusUsage
	case errors.Is(err, relock.ErrNotLock):
		status = statusNotLock
	case errors.As(err, new(*connect.BusyError)):
		status = statusBusy
	}
	return &exit{status, err}
}

// conclude shows an error of the program, and returns the exit status. What cobra finds is wrong
// with the command line has no status yet, and may have several lines.
func conclude(err error) int {
	var e *exit
	switch {
	case err == nil:
		return statusOK
	case !errors.As(err, &e):
		fmt.Fprintln(os.Stderr, titled(err.Error()))
		return statusUsage
	case e.err != nil:
		say(e.err)
	}
	if d := new(died); errors.As(err, &d) {
		job.Die(d.by)
	}
	return e.status
}

// say shows an error to the user.
func say(err error) { fmt.Fprintln(os.Stderr, titled(locks.Escaped(err.Error()))) }

func titled(text string) string {
	return ours + strings.TrimPrefix(text, ours)
}
