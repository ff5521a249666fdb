package command

import (
	"context"
	"errors"
	"fmt"
	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/cmd/relock/internal/connect"
	"github.com/relock-go/relock/cmd/relock/internal/job"
	"github.com/relock-go/relock/cmd/relock/internal/locks"
	"sync"
	"time"
)

// attempt is what became of the attempt to acquire the lock.
type attempt struct {
	reader *locks.Reader   // nil if there is no session
	lock   relock.Locker   // nil if it could not be acquired
	since  time.Time       // when it was acquired
	hold   context.Context // knows the hold's token and deadline; its end means nothing
	err    error
}

// acquire connects and waits for the lock, until a signal of the user ends it.
func (r *runner) acquire() error {
	ctx, cancel := context.WithCancelCause(r.cmd.Context())
	r.acquired, r.unlocked = make(chan attempt, 1), make(chan error, 1)
	r.finished = sync.OnceFunc(func() { cancel(nil) })
	go r.attempt(ctx)
	select {
	case a := <-r.acquired:
		r.held = a
		return a.err
	case s := <-r.signals:
		stopped := &exit{status: job.Status(s)}
		cancel(stopped)
		select { // briefly: what was granted too late ends with its lease
		case a := <-r.acquired:
			r.held.reader = a.reader // whose session ends the hold, if there is one
		case <-time.After(lookWithin):
		case <-r.signals:
		}
		return stopped
	}
}

// attempt connects, acquires the lock, and keeps it until the command has ended. It ends with
// finished.
func (r *runner) attempt(ctx context.Context) {
	var a attempt
	fail := func(err error) {
		a.err = err
		r.acquired <- a
	}
	within := startWithin
	if r.wait.set { // -w covers connecting too
		within = max(r.wait.Duration, time.Second)
	}
	began := time.Now()
	start, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	client, session, err := r.connect(start)
	if err != nil {
		fail(err)
		return
	}
	r.left = max(0, r.wait.Duration-time.Since(began))
	a.reader = &locks.Reader{Client: client, Session: session, Prefix: prefix(r.cmd)}
	lock := r.newLock(session)
	ran, err := r.do(ctx, lock, a.reader, func(hold context.Context) error {
		a.lock, a.hold, a.since = lock, hold, time.Now()
		r.acquired <- a
		<-ctx.Done()
		return nil
	})
	if !ran {
		fail(err)
		return
	}
	r.unlocked <- err
}

// connect starts a session. With -w it tries until ctx ends, unless Redis refuses for good.
func (r *runner) connect(ctx context.Context) (rueidis.Client, *relock.Session, error) {
	opts := []relock.SessionOption{relock.WithLease(r.lease.Duration), relock.WithPrefix(prefix(r.cmd))}
	if r.label != "" {
		opts = append(opts, relock.WithLabel(r.label))
	}
	for {
		client, session, err := connect.Start(ctx, address(r.cmd), opts...)
		if err == nil {
			return client, session, nil
		}
		if !r.wait.set || !connect.Passing(err) {
			return nil, nil, err
		}
		r.note("%v; trying again", err)
		select {
		case <-ctx.Done():
			return nil, nil, err
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// do calls f with the lock, which it acquires as the flags say. If the lock is taken it does
// not, and returns errTaken.
func (r *runner) do(ctx context.Context, l relock.Locker, reader *locks.Reader, f func(context.Context) error) (ran bool, err error) {
	once := r.noWait || r.wait.set && r.left == 0
	if once || r.wait.set || r.verbose { // who waits for a bounded time asks at least once
		switch ran, err = relock.TryDo(ctx, l, f); {
		case ran || err != nil:
			return ran, err
		case once:
			return false, errTaken
		}
		if r.verbose {
			r.note("waiting: %s", r.taken(ctx, reader))
		}
	}
	within, cancel := ctx, context.CancelFunc(func() {})
	if r.wait.set {
		within, cancel = context.WithTimeout(ctx, r.left)
	}
	defer cancel()
	err = relock.Do(within, l, func(hold context.Context) error {
		ran = true
		return f(hold)
	})
	if !ran && within.Err() != nil && errors.Is(err, relock.ErrTaken) {
		err = errTaken
	}
	return ran, err
}

func (r *runner) newLock(s *relock.Session) relock.Locker {
	var opts []relock.LockOption
	if r.maxHold.set {
		opts = append(opts, relock.WithMaxHold(r.maxHold.Duration))
	}
	if r.minHold.set {
		opts = append(opts, relock.WithMinHold(r.minHold.Duration))
	}
	switch {
	case r.slots > 0:
		return s.Semaphore(r.name, r.slots, opts...)
	case r.shared:
		return s.RWMutex(r.name, opts...).RLocker()
	case r.exclusive:
		return s.RWMutex(r.name, opts...)
	case r.fair:
		return s.FairMutex(r.name, opts...)
	case r.handoff.set || r.adopt != "":
		return &passed{Mutex: s.Mutex(r.name, opts...), r: r, session: s, opts: opts}
	}
	return s.Mutex(r.name, opts...)
}

// refused returns how the program ends without the lock.
func (r *runner) refused(err error) error {
	switch {
	case errors.Is(err, relock.ErrLost): // by the ticket
		return &exit{r.conflict, err}
	case !errors.Is(err, errTaken):
		return failed(err)
	}
	e := &exit{status: r.conflict}
	if !r.quiet {
		text := r.taken(r.cmd.Context(), r.held.reader)
		e.err = errors.New(text)
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
