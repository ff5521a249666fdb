// Package virtual_test asserts what relock says about time, exactly and over all types of locks,
// in bubbles of testing/synctest.
package virtual_test

import (
	"context"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/memredis"
	"github.com/relock-go/relock/relocktest"
)

var background = context.Background()

// lease is the default.
const lease = 30 * time.Second

// certain returns how long a lease of d is certain, counted from the sending of the request.
func certain(d time.Duration) time.Duration { return d - d/500 - 2*time.Millisecond }

// told returns when the loss of a lease of d is told, counted from the same.
func told(d time.Duration) time.Duration { return certain(d) - time.Millisecond }

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // worlds make much garbage and keep little
	goleak.VerifyTestMain(m)
}

// A lockType is a type of lock, or a side of one.
type lockType struct {
	name  string
	redis int      // servers
	names []string // of the locks in Redis
	make  func(s []*relock.Session, o ...relock.LockOption) relock.Locker
}

var lockTypes = []lockType{
	{"Mutex", 1, []string{"a"}, func(s []*relock.Session, o ...relock.LockOption) relock.Locker {
		return s[0].Mutex("a", o...)
	}},
	{"FairMutex", 1, []string{"a"}, func(s []*relock.Session, o ...relock.LockOption) relock.Locker {
		return s[0].FairMutex("a", o...)
	}},
	{"writer", 1, []string{"a"}, func(s []*relock.Session, o ...relock.LockOption) relock.Locker {
		return s[0].RWMutex("a", o...)
	}},
	{"reader", 1, []string{"a"}, func(s []*relock.Session, o ...relock.LockOption) relock.Locker {
		return s[0].RWMutex("a", o...).RLocker()
	}},
	{"Group", 1, []string{"a", "b"}, func(s []*relock.Session, o ...relock.LockOption) relock.Locker {
		return relock.NewGroup(s[0].Mutex("a", o...), s[0].Mutex("b", o...))
	}},
	{"mixed Group", 1, []string{"a", "b"}, func(s []*relock.Session, o ...relock.LockOption) relock.Locker {
		return relock.NewGroup(s[0].FairMutex("a", o...), s[0].RWMutex("b", o...))
	}},
	{"Redlock", 3, []string{"a"}, func(s []*relock.Session, o ...relock.LockOption) relock.Locker {
		return relock.NewRedlock(s, "a", o...)
	}},
	{"Semaphore", 1, []string{"a"}, func(s []*relock.Session, o ...relock.LockOption) relock.Locker {
		return s[0].Semaphore("a", 1, o...)
	}},
}

var reader, semaphore = &lockTypes[3], &lockTypes[7]

// A world is the servers and processes for a lock of one type.
type world struct {
	t     testing.TB
	typ   *lockType
	redis []*relocktest.Redis
	warm  bool // the servers know the scripts
}

// A process has a session on each server.
type process struct {
	w *world
	s []*relock.Session
}

// onEach runs f in a bubble for each type of lock.
func onEach(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	for i := range lockTypes {
		t.Run(lockTypes[i].name, func(t *testing.T) { alone(t, &lockTypes[i], f) })
	}
}

// alone runs f in a bubble for one type of lock.
func alone(t *testing.T, typ *lockType, f func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { f(t, newWorld(t, typ)) })
}

func newWorld(t testing.TB, typ *lockType) *world {
	w := &world{t: t, typ: typ}
	for range typ.redis {
		w.redis = append(w.redis, relocktest.New(t))
	}
	return w
}

// process starts a process. The servers know its scripts when it returns.
func (w *world) process(opts ...relock.SessionOption) *process {
	w.t.Helper()
	p := &process{w: w}
	for _, r := range w.redis {
		p.s = append(p.s, r.Session(opts...))
	}
	if w.warm {
		return p
	}
	w.warm = true
	l := p.held()
	time.Sleep(lease / 2) // it is renewed
	require.NoError(w.t, l.Unlock(background))
	time.Sleep(time.Second) // what a Redlock has to do in the background
	return p
}

// lock returns a value of the lock.
func (p *process) lock(o ...relock.LockOption) relock.Locker { return p.w.typ.make(p.s, o...) }

func (p *process) delay(d time.Duration) { p.networks(func(n *memredis.Process) { n.Delay(d) }) }

// refuse breaks all connections, and no new one can be made until the process heals.
func (p *process) refuse() { p.networks(down) }

// heal ends all faults.
func (p *process) heal() { p.networks((*memredis.Process).Heal) }

func (p *process) networks(f func(*memredis.Process)) {
	for i, r := range p.w.redis {
		f(memredis.Of(r, p.s[i]))
	}
}

// partition lets nothing pass until heal is called; connections stay.
func (p *process) partition() (heal func()) {
	var heals []func()
	p.networks(func(n *memredis.Process) { heals = append(heals, n.Cut()) })
	return func() {
		for _, heal := range heals {
			heal()
		}
	}
}

// held locks a value of the lock.
func (p *process) held(o ...relock.LockOption) relock.Locker {
	p.w.t.Helper()
	l := p.lock(o...)
	require.NoError(p.w.t, l.Lock(background))
	return l
}

// acquirer returns a value of the lock that locks by Acquire.
func (p *process) acquirer(o ...relock.LockOption) *kit.HoldLocker {
	return kit.NewHoldLocker(p.lock(o...))
}

// taken acquires the lock.
func (p *process) taken(o ...relock.LockOption) *kit.HoldLocker {
	p.w.t.Helper()
	l := p.acquirer(o...)
	require.NoError(p.w.t, l.Lock(background))
	return l
}

// begin calls Lock in a goroutine, and returns what it will return.
func begin(ctx context.Context, l relock.Locker) <-chan error {
	return kit.Async(func() error { return l.Lock(ctx) })
}

// lockAndUnlock locks and unlocks l in a goroutine, and returns the error. It gives up after an hour.
func lockAndUnlock(l relock.Locker) <-chan error {
	return kit.Async(func() error {
		ctx, cancel := context.WithTimeout(background, time.Hour)
		defer cancel()
		if err := l.Lock(ctx); err != nil {
			return err
		}
		return l.Unlock(background)
	})
}

// exclusive reports whether the lock excludes its own type.
func (w *world) exclusive() bool { return w.typ.name != "reader" }

// opposite returns a lock of the process that excludes the world's.
func (p *process) opposite() relock.Locker {
	if !p.w.exclusive() {
		return p.s[0].RWMutex("a")
	}
	return p.lock()
}

// slow is how long a waiter may need once the lock is free.
func (w *world) slow() time.Duration {
	if w.typ.redis > 1 { // it pauses between its attempts
		return 2 * time.Second
	}
	return 0
}

// restart restarts each server, with its data or without.
func (w *world) restart(keep bool) {
	for _, r := range w.redis {
		r.Restart(keep)
	}
}

// do sends a command to each server.
func (w *world) do(command ...string) {
	w.t.Helper()
	for _, r := range w.redis {
		require.NoError(w.t, r.Client().Do(background, r.Client().B().Arbitrary(command...).Build()).Error())
	}
}

// took returns how long f takes.
func took(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// readWrite reports whether the lock "a" is an RWMutex.
func (w *world) readWrite() bool { return w.typ.name == "reader" || w.typ.name == "writer" }

// has reports whether one of these keys is on a server.
func (w *world) has(keys ...string) bool {
	w.t.Helper()
	for _, r := range w.redis {
		n, err := r.Client().Do(background, r.Client().B().Exists().Key(keys...).Build()).AsInt64()
		require.NoError(w.t, err)
		if n > 0 {
			return true
		}
	}
	return false
}

// free reports whether nothing of the lock is left in Redis.
func (w *world) free() bool { return !w.has(w.typ.names...) }

// fields returns the fields of the lock "a" on the first server, of a semaphore its hold ids.
func (w *world) fields() []string {
	w.t.Helper()
	synctest.Wait()
	c := w.redis[0].Client()
	read := c.B().Hkeys().Key("a").Build()
	if w.typ == semaphore {
		read = c.B().Zrange().Key("a").Min("0").Max("-1").Build()
	}
	fields, err := c.Do(background, read).AsStrSlice()
	require.NoError(w.t, err)
	fields = slices.DeleteFunc(fields, func(f string) bool { return w.typ == semaphore && (f == "permits" || f[0] == ':') })
	slices.Sort(fields)
	return fields
}

// ttl returns the least time to live of the lock in Redis.
func (w *world) ttl() time.Duration {
	w.t.Helper()
	synctest.Wait() // a Redlock has the lock before the last servers have answered
	least := time.Duration(1<<63 - 1)
	for _, r := range w.redis {
		c := r.Client()
		for _, name := range w.typ.names {
			ms, err := c.Do(background, c.B().Pttl().Key(name).Build()).AsInt64()
			require.NoError(w.t, err)
			least = min(least, time.Duration(ms)*time.Millisecond)
		}
	}
	return least
}

// ends is a lock or a hold.
type ends interface {
	Done() <-chan struct{}
	Err() error
}

// lost waits until the loss is reported to the holder, and returns when that is.
func lost(t testing.TB, l ends) time.Time {
	t.Helper()
	select {
	case <-l.Done():
	case <-time.After(24 * time.Hour):
		t.Fatal("the hold has not ended within a day")
	}
	require.ErrorIs(t, l.Err(), relock.ErrLost)
	return time.Now()
}

// A renewals keeps the rounds of renewals.
type renewals struct {
	relock.NopObserver
	mu     sync.Mutex
	rounds []relock.RenewEvent
	times  []time.Time // when they ended
}

func (r *renewals) Renewed(e relock.RenewEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rounds, r.times = append(r.rounds, e), append(r.times, time.Now())
}

// takeRounds returns the rounds since the last call.
func (r *renewals) takeRounds() []relock.RenewEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	rounds := r.rounds
	r.rounds = nil
	return rounds
}

// since returns how long after start rounds ended, each time once.
func (r *renewals) since(start time.Time) (all []time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, at := range r.times {
		if d := at.Sub(start); d >= 0 && !slices.Contains(all, d) {
			all = append(all, d)
		}
	}
	return all
}
