package command

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/cmd/relock/internal/connect"
	"github.com/relock-go/relock/cmd/relock/internal/locks"
)

// attempt is what became of the attempt to acquire the lock.
type attempt struct {
	reader *locks.Reader // nil if there is no session
	hold   *relock.Hold  // nil if it could not be acquired
	since  time.Time     // when it was acquired
	err    error
}

// acquire connects and waits for the lock, until a signal of the user ends it.
func (r *runner) acquire() error {
	ctx, cancel := context.WithCancelCause(r.cmd.Context())
	defer cancel(nil)
	acquired := make(chan attempt, 1)
	go func() { acquired <- r.attempt(ctx) }() // ends with ctx
	select {
	case r.held = <-acquired:
		return r.held.err
	case s := <-r.signals:
		stopped := &died{s.(syscall.Signal)}
		cancel(stopped)
		select { // briefly: what was granted too late ends with its lease
		case a := <-acquired:
			r.held.reader = a.reader // whose session ends the hold, if there is one
		case <-time.After(lookWithin):
		case <-r.signals:
		}
		return stopped
	}
}

// attempt connects and acquires the lock.
func (r *runner) attempt(ctx context.Context) (a attempt) {
	within := startWithin
	if r.wait.set { // -w covers connecting too
		within = max(r.wait.Duration, time.Second)
	}
	began := time.Now()
	start, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	client, session, err := r.connect(start)
	if err != nil {
		a.err = err
		return a
	}
	r.left = max(0, r.wait.Duration-time.Since(began))
	a.reader = &locks.Reader{Client: client, Session: session, Prefix: prefix(r.cmd)}
	a.hold, a.err = r.do(ctx, r.newLock(session), a.reader)
	a.since = time.Now()
	return a
}

// connect starts a session. With -w it tries until ctx ends, unless Redis refuses for good.
func (r *runner) connect(ctx context.Context) (rueidis.Client, *relock.Session, error) {
	opts := []relock.SessionOption{
		relock.WithLease(r.lease.Duration), relock.WithPrefix(prefix(r.cmd)), relock.WithObserver(&r.news),
	}
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

// acquirer is a lock of any type, or a ticket.
type acquirer interface {
	Acquire(ctx context.Context) (*relock.Hold, error)
	TryAcquire(ctx context.Context) (*relock.Hold, error)
}

// do acquires l as the flags say. If it is taken it returns errTaken.
func (r *runner) do(ctx context.Context, l acquirer, reader *locks.Reader) (*relock.Hold, error) {
	once := r.noWait || r.wait.set && r.left == 0
	nested := len(around()) > 0 && r.adopt == ""
	if once || r.wait.set || r.verbose || nested { // with a bounded wait Redis is asked at least once
		hold, err := l.TryAcquire(ctx)
		taken := errors.Is(err, relock.ErrTaken)
		switch {
		case once && taken:
			return nil, errTaken
		case err == nil || once || !taken && !errors.Is(err, relock.ErrUnavailable):
			return hold, err
		}
		if taken && r.waitsForItself(ctx, reader) {
			return nil, errNested
		}
		if r.verbose && taken {
			r.note("waiting: %s", r.taken(ctx, reader))
		}
	}
	if r.wait.set {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.left)
		defer cancel()
	}
	hold, err := l.Acquire(ctx)
	if ctx.Err() != nil && errors.Is(err, relock.ErrTaken) {
		err = errTaken
	}
	return hold, err
}

func (r *runner) newLock(s *relock.Session) acquirer {
	var opts []relock.LockOption
	if r.maxHold.set {
		opts = append(opts, relock.WithMaxHold(r.maxHold.Duration))
	}
	if r.minHold.set {
		opts = append(opts, relock.WithMinHold(r.minHold.Duration))
	}
	if r.runFlags.note != "" {
		opts = append(opts, relock.WithNote(r.runFlags.note))
	}
	switch {
	case r.slots > 0:
		return s.Semaphore(r.name, r.slots, opts...)
	case r.shared:
		return s.RWMutex(r.name, opts...).RLocker().(acquirer)
	case r.exclusive:
		return s.RWMutex(r.name, opts...)
	case r.fair:
		return s.FairMutex(r.name, opts...)
	case r.adopt != "":
		return &adopter{s, r.ticket, opts}
	}
	return s.Mutex(r.name, opts...)
}

// refused returns how the program ends without the lock.
func (r *runner) refused(err error) error {
	switch {
	case errors.Is(err, relock.ErrLost): // by the ticket
		return &exit{r.conflict, err}
	case errors.Is(err, errNested):
		return r.nested()
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
	if r.isAround(l, around()) {
		return name + " is held by the relock run around this command"
	}
	return fmt.Sprintf("%s is held by %s, for %s", name, l.Holder(), locks.HeldFor(l))
}
