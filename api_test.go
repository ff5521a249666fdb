package relock_test

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock"
)

// The exported API, which users' code is written against: what is assigned here has
// exactly these types.
var (
	_ func(context.Context, rueidis.Client, ...relock.SessionOption) (*relock.Session, error) = relock.NewSession

	_ func(*relock.Session) string                                                        = (*relock.Session).ID
	_ func(*relock.Session, context.Context) context.Context                              = (*relock.Session).NewContext
	_ func(context.Context) (*relock.Session, bool)                                       = relock.FromContext
	_ func(*relock.Session) <-chan struct{}                                               = (*relock.Session).Done
	_ func(*relock.Session, context.Context) error                                        = (*relock.Session).Close
	_ func(*relock.Session, context.Context, string) (relock.State, error)                = (*relock.Session).Inspect
	_ func(*relock.Session, context.Context, string) (bool, error)                        = (*relock.Session).ForceUnlock
	_ func(*relock.Session, context.Context, string, ...string) (bool, error)             = (*relock.Session).ForceUnlockHolders
	_ func(*relock.Session, string, ...relock.LockOption) *relock.Mutex                   = (*relock.Session).Mutex
	_ func(*relock.Session, string, ...relock.LockOption) *relock.FairMutex               = (*relock.Session).FairMutex
	_ func(*relock.Session, string, ...relock.LockOption) *relock.RWMutex                 = (*relock.Session).RWMutex
	_ func(...relock.Locker) *relock.Group                                                = relock.NewGroup
	_ func([]*relock.Session, string, ...relock.LockOption) *relock.Redlock               = relock.NewRedlock
	_ func(context.Context, relock.Locker, func(context.Context) error) error             = relock.Do
	_ func(relock.Locker) sync.Locker                                                     = relock.SyncLocker
	_ func(time.Duration) relock.Option                                                   = relock.WithLease
	_ func(time.Duration) relock.SessionOption                                            = relock.WithTenure
	_ func(string) relock.SessionOption                                                   = relock.WithPrefix
	_ func(string) relock.SessionOption                                                   = relock.WithLabel
	_ func(int, time.Duration) relock.SessionOption                                       = relock.WithReplicas
	_ func(relock.Observer) relock.SessionOption                                          = relock.WithObserver
	_ func() relock.SessionOption                                                         = relock.WithBackgroundStart
	_ func(time.Duration) relock.LockOption                                               = relock.WithFixedLease
	_ func(string) relock.LockOption                                                      = relock.WithNote
	_ func(*relock.Hold, context.Context, string, []string, []string) rueidis.RedisResult = (*relock.Hold).Eval
	_ func(time.Duration) relock.LockOption                                               = relock.WithMaxHold
	_ []error                                                                             = []error{relock.ErrLost, relock.ErrNotHeld, relock.ErrClosed, relock.ErrUpgrade, relock.ErrDeadlock, relock.ErrName, relock.ErrOption, relock.ErrNotLock, relock.ErrTaken, relock.ErrExpired, relock.ErrGone, relock.ErrForced}
	_ func(time.Duration) relock.LockOption                                               = relock.WithMinHold
	_ func(time.Duration) relock.LockOption                                               = relock.WithWait
	_                                                                                     = relock.State{Mode: relock.Unlocked, Holders: nil, TTL: 0, Waiters: 0, Token: int64(0), Age: 0, Permits: 0}
	_ []relock.Mode                                                                       = []relock.Mode{relock.Unlocked, relock.Exclusive, relock.Shared}
	_                                                                                     = relock.RenewEvent{Holds: 0, Duration: 0, Err: nil}
	_ relock.Observer                                                                     = relock.NopObserver{}
	_ func(...relock.Observer) relock.Observer                                            = relock.Observers
	_ func(*slog.Logger) relock.Observer                                                  = relock.SlogObserver
	_ []relock.Kind                                                                       = []relock.Kind{relock.KindMutex, relock.KindFair, relock.KindRead, relock.KindWrite, relock.KindGroup, relock.KindRedlock, relock.KindSemaphore}
	_                                                                                     = relock.WaitEvent{Name: "", Kind: relock.KindMutex}
	_                                                                                     = relock.AcquireEvent{Name: "", Kind: relock.KindMutex, Held: true, Wait: 0, Contended: false, Waited: false, Local: false, Kept: false, Token: int64(1), Err: nil}
	_                                                                                     = relock.ReleaseEvent{Name: "", Kind: relock.KindMutex, Held: time.Duration(0), Err: nil}
	_                                                                                     = relock.LostEvent{Name: "", Kind: relock.KindMutex, Held: time.Duration(0), Cause: nil}

	_ func(context.Context, relock.Locker, func(context.Context) error) (bool, error) = relock.TryDo
	_ func(context.Context) int64                                                     = relock.Token
	_ func(context.Context) *relock.Hold                                              = relock.HoldOf

	_ func(context.Context, relock.Locker, func(context.Context) (int, error)) (int, error) = relock.DoValue[int]

	_ func(*relock.Session, string, int, ...relock.LockOption) *relock.Semaphore                 = (*relock.Session).Semaphore
	_ func(*relock.Session, context.Context, string, ...relock.LockOption) (*relock.Hold, error) = (*relock.Session).Adopt
	_ func(time.Duration) relock.LockOption                                                      = relock.WithKeep
)

var _ interface {
	Unlock(ctx context.Context) error
	Done() <-chan struct{}
	Err() error
	Context(parent context.Context) (context.Context, context.CancelFunc)
	Name() string
	Token() int64
	Deadline() (time.Time, bool)
	Slot() int
	Members() []*relock.Hold
	Wanted() <-chan struct{}
	Handoff(ctx context.Context, d time.Duration) (ticket string, err error)
} = (*relock.Hold)(nil)

var (
	_ relock.Locker = (*relock.Mutex)(nil)
	_ relock.Locker = (*relock.FairMutex)(nil)
	_ relock.Locker = (*relock.RWMutex)(nil)
	_ relock.Locker = (*relock.Group)(nil)
	_ relock.Locker = (*relock.Redlock)(nil)
	_ relock.Locker = (*relock.Semaphore)(nil)

	_ = []interface { // what every lock type has beside Locker
		Acquire(ctx context.Context) (*relock.Hold, error)
		TryAcquire(ctx context.Context) (*relock.Hold, error)
	}{
		(*relock.Mutex)(nil), (*relock.FairMutex)(nil), (*relock.RWMutex)(nil), (*relock.Semaphore)(nil), (*relock.Group)(nil),
		(*relock.Redlock)(nil),
	}
	_ = []interface { // all but a Group
		Name() string
		FencingToken() int64
	}{(*relock.Mutex)(nil), (*relock.FairMutex)(nil), (*relock.RWMutex)(nil), (*relock.Semaphore)(nil), (*relock.Redlock)(nil)}

	_ func(*relock.RWMutex, context.Context) error         = (*relock.RWMutex).RLock
	_ func(*relock.RWMutex, context.Context) (bool, error) = (*relock.RWMutex).TryRLock
	_ func(*relock.RWMutex, context.Context) error         = (*relock.RWMutex).RUnlock
	_ func(*relock.RWMutex) relock.Locker                  = (*relock.RWMutex).RLocker

	_ func(*relock.RWMutex, context.Context) (*relock.Hold, error) = (*relock.RWMutex).RAcquire
	_ func(*relock.RWMutex, context.Context) (*relock.Hold, error) = (*relock.RWMutex).TryRAcquire
)
