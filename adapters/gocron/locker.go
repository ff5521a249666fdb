// Package relockgocron lets several schedulers of [gocron] run each job once, by locks of [relock]:
// under a Locker ([NewLocker]) every scheduler tries each tick of a job, and one of them runs it;
// with an [Elector] one scheduler leads, and runs all jobs until it stops or dies.
//
// gocron gives a job one context for all its runs. A job that must stop when its lock is lost asks
// for the context of this run: with [Context] under a Locker, with [Elector.Context] under an
// Elector.
package relockgocron

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	"github.com/go-co-op/gocron/v2"
	"github.com/relock-go/relock"
)

// NewLocker returns a locker for [gocron.WithDistributedLocker] or
// [gocron.WithDistributedJobLocker]. A job's lock has the name that [gocron.WithName] gives to the
// job, and these options.
//
// Its Lock does not wait for others: if somebody else has the job, or a run of it in this process
// has not ended, the error is [relock.ErrTaken], and gocron skips the tick. The lock is held, and
// renewed, until the job returns. A locker is safe for concurrent use, and need not be closed.
//
// Give it [relock.WithMinHold]. A scheduler whose clock is behind tries a tick when the others are
// done with it, and would run it again: the lock must stay taken for longer than clocks differ and
// ticks come late, and for less than the period. [relock.WithLease] bounds for how long a job is
// skipped after its process has died.
func NewLocker(s *relock.Session, opts ...relock.LockOption) gocron.Locker { return &locker{s, opts} }

type locker struct {
	session *relock.Session
	opts    []relock.LockOption
}

// A run of a job has the lock from Lock to Unlock.
type run struct {
	by     *locker
	key    string
	job    context.Context // the job's, the same for each of its runs
	hold   *relock.Hold
	ctx    context.Context // of this run
	cancel context.CancelFunc
}

// runs has the *run that is under way in this process for each context that gocron has given to a
// job.
var runs sync.Map

func (l *locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	if !isKey(ctx) {
		return nil, fmt.Errorf("relockgocron: %s: a context of type %T, which gocron does not make, cannot be told from others", key, ctx)
	}
	if o := runOf(ctx); o != nil && o.by == l && o.key == key { // it may have lost its lock
		return nil, fmt.Errorf("relockgocron: %s has not ended in this process: %w", key, relock.ErrTaken)
	}
	// An owner of its own: the runs of jobs whose contexts have one would all enter the same lock.
	hold, err := l.session.Mutex(key, l.opts...).TryAcquire(l.session.NewContext(ctx))
	if err != nil {
		return nil, err
	}
	r := &run{by: l, key: key, job: ctx, hold: hold}
	r.ctx, r.cancel = hold.Context(ctx)
	runs.Store(ctx, r)
	return r, nil
}

// Unlock ends the run; see [relock.Hold.Unlock].
func (r *run) Unlock(ctx context.Context) error {
	runs.CompareAndDelete(r.job, r)
	r.cancel()
	return r.hold.Unlock(ctx)
}

// Context returns the context of this run of a job: it ends with ctx, with the run, and when the
// lock is lost, with [relock.ErrLost] and why as its cause. [relock.HoldOf] knows the hold. ctx
// must be the one that gocron gives to the job; any other, such as that of a job without this
// Locker, is returned as it is.
func Context(ctx context.Context) context.Context {
	if r := runOf(ctx); r != nil {
		return r.ctx
	}
	return ctx
}

// runOf returns the run that is under way for the context of a job, nil if there is none.
func runOf(ctx context.Context) *run {
	if isKey(ctx) {
		if r, ok := runs.Load(ctx); ok {
			return r.(*run)
		}
	}
	return nil
}

// isKey reports whether ctx can be a key of runs, as every context of gocron is.
func isKey(ctx context.Context) bool { return reflect.ValueOf(ctx).Comparable() }
