package acquire

import (
	"sync"
	"time"

	"github.com/relock-go/relock/internal/local"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/transport"
)

// Facts are what an acquisition knows when it must say why it ends without the lock. Calls that wait
// behind it in the process say the same.
type Facts struct {
	mu    sync.Mutex // protects the following
	taken bool       // the last answer of Redis: the lock is taken
	err   error      // the last answer of Redis was an error; nil: it was not
	since int64      // when the request was sent that Redis has not answered; 0: it has answered all
	last  int64      // when the last request was sent
}

// silentFrom is when a request without an answer outweighs the answer before it.
const silentFrom = time.Second

// Sent notes a request that was sent at a time.
func (f *Facts) Sent(at int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.since, f.last = at, at
}

// sentAt returns when the last request was sent.
func (f *Facts) sentAt() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// Heard notes that Redis has answered.
func (f *Facts) Heard() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.since = 0
}

// Answered notes the last answer: the lock is taken if err is nil.
func (f *Facts) Answered(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taken, f.err, f.since = err == nil, err, 0
}

// Silent notes that Redis has answered nothing that was sent since then.
func (f *Facts) Silent(since int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taken, f.err, f.since = false, nil, since
}

// verdict returns whether the lock is taken, as far as is known now, or why that is not known. seen:
// it was known to be taken lately.
func (f *Facts) verdict(seen bool, now int64) (taken bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	silent := time.Duration(now - f.since)
	switch {
	case f.err != nil:
		return false, f.err
	case f.since > 0 && (silent >= silentFrom || !f.taken && !seen):
		return false, transport.NoAnswer(silent)
	}
	return f.taken || seen, nil
}

// A Knower is a call of which another one may have to know why it waits: Call.For.
type Knower interface{ Known() *Facts }

// Verdict is what a call says of the lock: by its own facts, or by those of the call of this process
// that it waits for.
func Verdict(t *local.Table, c *local.Call, own *Facts, now int64) (taken bool, err error) {
	ahead := t.Ahead(c)
	seen := ahead.TakenAt >= 0 && now-ahead.TakenAt < int64(silentFrom)
	before, asks := ahead.Delegate.(Knower)
	switch {
	case ahead.Held:
		return true, nil
	case ahead.Release > 0:
		own = &Facts{since: ahead.Release}
	case asks:
		own = before.Known()
	}
	return own.verdict(seen, now)
}

// Known implements [Knower].
func (a *acquisition) Known() *Facts { return &a.facts }

// Verdict implements [Asker].
func (a *acquisition) Verdict() (taken bool, err error) {
	switch now := a.n.Clock.Now(); {
	case !a.apart:
		return Verdict(a.table.Table, a.call, &a.facts, now)
	case a.behind != nil:
		return a.behind.verdict(false, now)
	default:
		return a.facts.verdict(false, now)
	}
}

// ended returns why the call must end, nil if it may go on.
func (a *acquisition) ended() error {
	op := a.op(a.c)
	switch {
	case a.ctx.Err() == nil && a.session.Err() == nil:
		return nil
	case a.ctx.Err() == nil:
		return a.fails(a.c, lockerr.ErrClosed, a.facts.lastError())
	}
	taken, err := a.Verdict()
	if a.c.found != nil && a.c.Ctx.Err() == nil { // a TryLock that waits has waited enough
		return a.triedEnough(err)
	}
	switch {
	case taken:
		return lockerr.Taken(op, a.Name(), a.ctx, a.c.Waited(), a.n.takenHere(a.Lock, a.call.Owner))
	case err == nil || unanswered(err):
		return lockerr.Unavailable(op, a.Name(), a.ctx, err)
	}
	return lockerr.Ended(op, a.Name(), a.ctx, err)
}

func (f *Facts) lastError() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// unanswered reports whether err leaves open what Redis would have answered.
func unanswered(err error) bool {
	_, silent := err.(transport.NoAnswer)
	return silent || transport.Unavailable(err)
}

// triedEnough returns why a TryLock that waits ends, which is not the end of its caller's context.
func (a *acquisition) triedEnough(err error) error {
	switch {
	case a.c.told.Contended:
		return a.fails(a.c, lockerr.ErrTaken)
	case err == nil || unanswered(err):
		return a.fails(a.c, lockerr.ErrUnavailable, err)
	}
	return a.fails(a.c, err)
}

// unavailable returns the failure of an operation because of err, whose request was sent d ago.
func unavailable(op, name string, err error, d time.Duration) error {
	if transport.Unavailable(err) {
		return lockerr.New(op, name, lockerr.ErrUnavailable, transport.Unanswered(err, d))
	}
	return lockerr.New(op, name, err)
}

// Unavailable is unavailable for other packages.
func Unavailable(op, name string, err error, d time.Duration) error {
	return unavailable(op, name, err, d)
}
