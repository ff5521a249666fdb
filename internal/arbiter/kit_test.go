package arbiter_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lease is what the fake Redis of these tests gives: certain until a time, and good for so many
// passes.
type lease struct {
	until  atomic.Int64
	passes int
	token  int64
	keeps  bool // it may be kept
}

const never = int64(1) << 60

func newLease(token int64, passes int) *lease {
	l := &lease{token: token, passes: passes}
	l.until.Store(never)
	return l
}

type (
	lock     = arbiter.Lock[*lease]
	hold     = arbiter.Hold[*lease]
	waiter   = arbiter.Waiter[*lease]
	standing = arbiter.Standing[*lease]
	exit     = arbiter.Exit[*lease]
	owner    = arbiter.Owner
)

const (
	write = arbiter.Write
	read  = arbiter.Read
)

var (
	background = context.Background()
	errLost    = errors.New("lost")
	errExpired = errors.New("expired")
)

// world is a table whose clock and leases the test controls.
type world struct {
	*arbiter.Table[*lease]
	now atomic.Int64
	ids atomic.Int64 // calls of ID
}

func newWorld() *world {
	w := new(world)
	expire := func(name string, l *lease) { w.Lose(name, l, errExpired) }
	certain := func(l *lease, now int64) bool { return now < l.until.Load() }
	pass := func(l *lease, class, now int64) (int64, bool) {
		if l.passes == 0 || class != 1 || !certain(l, now) {
			return 0, false
		}
		l.passes--
		l.token++
		return l.token, true
	}
	w.Table = arbiter.NewTable(arbiter.Rules[*lease]{
		Now:      w.now.Load,
		ID:       func(l *lease) string { w.ids.Add(1); return fmt.Sprintf("%p", l) },
		Certain:  certain,
		Expire:   expire,
		Gone:     expire,
		Outlasts: func(l, other *lease) bool { return l.until.Load() > other.until.Load() },
		Pass:     pass,
		Keep:     func(l *lease, _, _ int64) bool { return l.keeps },
		Resume:   pass,
	})
	return w
}

// lock returns a side of the lock "a".
func (w *world) lock(side arbiter.Side) *lock {
	l := new(lock)
	w.Init(l, "a", side)
	return l
}

func newOwner() *owner { return arbiter.NewOwner(nil) }
