package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/cmd/relock/internal/job"
	"github.com/relock-go/relock/cmd/relock/internal/locks"
	"github.com/spf13/cobra"
)

const lookWithin = 2 * time.Second // to find out who has a lock

// runner is one call of run.
type runner struct {
	*runFlags
	cmd     *cobra.Command
	name    string
	command []string
	signals <-chan os.Signal

	guard *job.Guard
	news  news
	held  attempt
	left  time.Duration // of -w, when the session has started

	ticket    string   // to adopt
	ticketTo  *os.File // where that of --handoff is written
	succeeded bool     // the command has ended by itself, without an error
	lostLock  bool     // the lock was lost while the command ran, which was reported
	handedOff bool
}

func newRunner(cmd *cobra.Command, f *runFlags, name string, command []string) *runner {
	return &runner{cmd: cmd, runFlags: f, name: name, command: command}
}

func (r *runner) run() error {
	path, err := exec.LookPath(r.command[0])
	if err != nil && !errors.Is(err, exec.ErrDot) { // $PATH is the user's
		return cannotRun(r.command[0], err)
	}
	if r.ticket, err = r.readTicket(prefix(r.cmd)); err != nil {
		return err
	}
	if r.handoff.set {
		if r.ticketTo, err = r.openTicket(); err != nil {
			return err
		}
	}
	if r.guard, err = job.StartGuard(); err != nil {
		return cannotRun(r.command[0], err)
	}
	defer r.guard.Dismiss()
	signals, stop := job.Signals()
	defer stop()
	r.signals = signals
	if err := r.acquire(); err != nil {
		err = r.refused(err)
		r.leave()
		return err
	}
	r.name = r.held.hold.Name()
	if err := r.emptyTicket(); err != nil {
		r.release()
		return err
	}
	r.note("%s is held%s", r.name, r.token(", token "))
	j := r.job(path)
	status, err := j.Run()
	r.succeeded, r.lostLock = err == nil && status == 0 && !j.Signalled, j.LostLock
	if err != nil {
		r.release()
		return cannotRun(r.command[0], err)
	}
	if j.Killed != 0 {
		err = &died{j.Killed}
	} else if status != 0 {
		err = &exit{status: status}
	}
	unreleased := r.release()
	if r.handoff.set && r.succeeded && unreleased != nil {
		err = failed(unreleased)
	} else if r.handoff.set && !r.succeeded && err == nil {
		r.report("the command was told to end; the lock is not handed off")
	}
	if r.lost > 0 && (r.lostLock || errors.Is(r.held.hold.Err(), relock.ErrLost)) {
		err = r.afterLoss(err)
	}
	return err
}

// afterLoss returns how the program ends if the lock was lost, and otherwise would end by err.
func (r *runner) afterLoss(err error) error {
	ended := &exit{status: r.lost}
	if e := new(exit); errors.As(err, &e) {
		ended.err = e.err // which has not been shown yet
	}
	return ended
}

// release unlocks, and says how that went.
func (r *runner) release() (err error) {
	if r.handoff.set && r.succeeded {
		err = r.handOff()
	} else {
		err = r.held.hold.Unlock(context.WithoutCancel(r.cmd.Context()))
	}
	left := r.leave()
	switch unconfirmed := r.news.unconfirmed(); {
	case errors.Is(err, relock.ErrLost) && (r.lostLock || r.handoff.set && r.succeeded):
		// That was told before, or the caller tells it.
		r.note("%s was lost", r.name)
	case errors.Is(err, relock.ErrLost):
		r.report("the lock was lost before its release: %s", r.news.why(err))
	case err != nil:
		r.note("%v", err)
	case r.handedOff:
		r.note("%s is handed off, for %v", r.name, r.handoff.Duration)
	case unconfirmed != nil && left != nil:
		r.report("the release is not confirmed; the lock may stay taken for up to %v: %v",
			r.lease.Duration, unconfirmed)
	default:
		r.note("%s is released", r.name)
	}
	return err
}

// leave ends the session. It returns an error if something may not be released.
func (r *runner) leave() error {
	if r.held.reader == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookWithin)
	defer cancel()
	return r.held.reader.Session.Close(ctx)
}

// report says what the user should know of the lock.
func (r *runner) report(format string, a ...any) {
	if !r.quiet {
		say(fmt.Errorf("%s: %w", locks.Printable(r.name), fmt.Errorf(format, a...)))
	}
}

// note says what happens, to users that want to know.
func (r *runner) note(format string, a ...any) {
	if r.verbose {
		say(fmt.Errorf(format, a...))
	}
}

func (r *runner) job(path string) *job.Job {
	var end time.Time
	grace := r.grace.Duration
	if r.maxHold.set {
		end = r.held.since.Add(r.maxHold.Duration)
		if !r.grace.set {
			grace = min(grace, r.maxHold.Duration/2)
		}
	}
	var wanted <-chan struct{}
	if r.yield {
		wanted = r.held.hold.Wanted()
	}
	return &job.Job{
		Path: path, Args: r.command, Env: r.env(), Guard: r.guard,
		Signals:  r.signals,
		Lost:     r.held.hold.Done(),
		Wanted:   wanted,
		Held:     func() bool { return r.held.hold.Err() == nil },
		Deadline: r.held.hold.Deadline,
		Why:      func() string { return r.news.why(r.held.hold.Err()) },
		Lead:     max(grace, r.lease.Duration/20),
		MaxHold:  end,
		Grace:    grace,
		Report:   r.report,
	}
}

// token returns the fencing token after a prefix, and nothing if the lock has none.
func (r *runner) token(prefix string) string {
	token := r.held.hold.Token()
	if token == 0 {
		return ""
	}
	return prefix + strconv.FormatInt(token, 10)
}

// env is the environment of the command.
func (r *runner) env() []string {
	var env []string
	own := []string{"RELOCK_NAME", "RELOCK_TOKEN", "RELOCK_SLOT", ticketVariable, aroundVariable}
	for _, e := range withoutHidden(os.Environ()) {
		if name, _, _ := strings.Cut(e, "="); !slices.Contains(own, name) {
			env = append(env, e)
		}
	}
	sessions := append(around(), r.held.reader.Session.ID())
	env = append(env, "RELOCK_NAME="+r.name, aroundVariable+"="+strings.Join(sessions, " "))
	if t := r.token("RELOCK_TOKEN="); t != "" {
		env = append(env, t)
	}
	if slot := r.held.hold.Slot(); slot >= 0 {
		env = append(env, "RELOCK_SLOT="+strconv.Itoa(slot))
	}
	return env
}

// cannotRun returns how the program ends if the command cannot be started: as a shell, or if it is
// the system that starts no process, by a status of its own.
func cannotRun(command string, err error) error {
	status := statusCannotRun
	noRoom := func(no syscall.Errno) bool { return errors.Is(err, no) }
	switch {
	case errors.Is(err, job.ErrGuard), slices.ContainsFunc(noProcess, noRoom):
		status = statusSystem
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		status = statusNoCommand
	}
	return &exit{status, fmt.Errorf("cannot run %s: %w", command, err)}
}

// noProcess are errors of a system that has no room for another process.
var noProcess = []syscall.Errno{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE}
