package command

import (
	"context"
	"errors"
	"fmt"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/cmd/relock/internal/connect"
	"github.com/relock-go/relock/cmd/relock/internal/job"
	"github.com/relock-go/relock/cmd/relock/internal/locks"
	"time"
)

// attempt is what became of the attempt to acquire the lock.
type attempt struct {
	reader *locks.Reader // nil if there is no session
	lock   relock.Locker
	err    error
}

// acquire connects and waits for the lock, until a signal of the user ends it.
func (r *runner) acquire() error {
	ctx, cancel := context.WithCancelCause(r.cmd.Context())
	defer cancel(nil)
	done := make(chan attempt, 1)
	go func() { done <- r.attempt(ctx) }()
	select {
	case a := <-done:
		r.reader, r.lock = a.reader, a.lock
		return a.err
	case s := <-r.signals:
		cancel(&exit{status: job.Status(s)})
		select { // briefly: what was granted too late ends with its lease
		case a := <-done:
			r.reader = a.reader // whose session ends the hold, if there is one
		case <-time.After(lookWithin):
		case <-r.signals:
		}
		return context.Cause(ctx)
	}
}

// attempt connects and acquires the lock.
func (r *runner) attempt(ctx context.Context) (a attempt) {
	start, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	client, err := connect.Open(start, address(r.cmd))
	if err != nil {
		return attempt{err: err}
	}
	session, err := relock.NewSession(start, client, relock.WithWatchdog(r.lease.Duration))
	if err != nil {
		return attempt{err: err}
	}
	a.reader = &locks.Reader{Client: client, Session: session}
	a.lock = r.newLock(session)
	a.err = r.waitFor(ctx, a)
	return a
}

// waitFor acquires the lock as the flags say, or returns errTaken.
func (r *runner) waitFor(ctx context.Context, a attempt) error {
	once := r.noWait || r.wait.set && r.wait.Duration == 0
	if once || r.verbose {
		switch ok, err := a.lock.TryLock(ctx); {
		case ok || err != nil:
			return err
		case once:
			return errTaken
		}
		r.note("waiting: %s", r.taken(ctx, a.reader))
	}
	if !r.wait.set {
		return a.lock.Lock(ctx)
	}
	within, cancel := context.WithTimeoutCause(ctx, r.wait.Duration, errTaken)
	defer cancel()
	return a.lock.Lock(within)
}

func (r *runner) newLock(s *relock.Session) relock.Locker {
	var opts []relock.LockOption
	if r.maxHold.set {
		opts = append(opts, relock.WithMaxHold(r.maxHold.Duration))
	}
	switch {
	case r.shared:
		return s.RWMutex(r.name, opts...).RLocker()
	case r.exclusive:
		return s.RWMutex(r.name, opts...)
	case r.fair:
		return s.FairMutex(r.name, opts...)
	}
	return s.Mutex(r.name, opts...)
}

// refused returns how the program ends without the lock.
func (r *runner) refused(err error) error {
	if errors.Is(err, relock.ErrName) || errors.Is(err, relock.ErrOption) {
		return usage("%w", err)
	}
	if !errors.Is(err, errTaken) {
		return failed(err)
	}
	e := &exit{status: r.conflict}
	if !r.quiet {
		e.err = errors.New(r.taken(r.cmd.Context(), r.reader))
	}
	return e
}

// taken says who has the lock.
func (r *runner) taken(ctx context.Context, reader *locks.Reader) string {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	name := locks.Printable(r.name)
	l, err := reader.Read(ctx, r.name)
	if err != nil || !l.Locked() {
		return name + " is taken"
	}
	return fmt.Sprintf("%s is held by %s, for %s", name, l.Holder(), locks.HeldFor(l))
}
