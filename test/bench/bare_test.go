package bench_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

// bare sends the scripts that relock sends, with the same arguments, through
// rueidis alone. What it takes is the floor under relock's figures.
type bare struct {
	client rueidis.Client
	keyed  bool // name the keys to rueidis, which then spreads the commands over its wires
	seq    atomic.Uint64
}

// bareLock is a lock by its names on the wire.
type bareLock struct{ name, fence, queue, channel string }

func newBareLock(name string) bareLock {
	tag := "{" + name + "}"
	return bareLock{name, "relock_fence:" + tag, "relock_queue:" + tag, "redisson_lock__channel:" + tag}
}

// loadScripts makes them known to the server, so that no EVALSHA is in vain.
func loadScripts(client rueidis.Client) error {
	for _, text := range []string{kit.AcquireText, kit.ReleaseText} {
		if err := client.Do(kit.Background, client.B().ScriptLoad().Script(text).Build()).Error(); err != nil {
			return err
		}
	}
	return nil
}

// bareSession is as long as the id of a session, and different in each process.
var bareSession = fmt.Sprintf("%08x-0123-4123-8123-0123456789ab:", os.Getpid())

func (c *bare) newID() string { return bareSession + strconv.FormatUint(c.seq.Add(1), 10) }

// acquire reports whether it was granted.
func (c *bare) acquire(ctx context.Context, l *bareLock, id string) (bool, error) {
	n, err := c.eval(ctx, kit.AcquireSHA, []string{l.name, l.fence, l.queue}, id, "30000", "0", "5000")
	return n > 0, err
}

// release reports whether it was held.
func (c *bare) release(ctx context.Context, l *bareLock, id string) (bool, error) {
	n, err := c.eval(ctx, kit.ReleaseSHA, []string{l.name, l.queue, l.fence}, id, l.channel, "5000")
	return n >= 0, err
}

func (c *bare) eval(ctx context.Context, sha string, keys []string, args ...string) (int64, error) {
	b := c.client.B().Arbitrary("EVALSHA", sha, strconv.Itoa(len(keys)))
	if c.keyed {
		b = b.Keys(keys...)
	} else {
		b = b.Args(keys...)
	}
	return c.client.Do(ctx, b.Args(args...).Build()).AsInt64()
}

// pair acquires and releases a lock that nobody else wants.
func (c *bare) pair(l *bareLock) {
	id := c.newID()
	granted, err := c.acquire(kit.Background, l, id)
	benchCheck(err == nil && granted, "bare acquire of %s: %v, %v", l.name, granted, err)
	held, err := c.release(kit.Background, l, id)
	benchCheck(err == nil && held, "bare release of %s: %v, %v", l.name, held, err)
}

// pairFloor returns what measures the bare acquire and release by one goroutine.
func pairFloor(b *testing.B, srv *redistest.Server) func() float64 {
	floor, lock := &bare{client: kit.NewClient(b, srv)}, newBareLock("floor")
	return func() float64 { return nsPerOp(200, func() { floor.pair(&lock) }) }
}

// benchCheck ends the process when a benchmark does not do what it is there to
// measure. It may be called from any goroutine, and in helper processes.
func benchCheck(ok bool, format string, args ...any) {
	if !ok {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
		os.Exit(2)
	}
}

// lockUnlock is what the benchmarks repeat.
func lockUnlock(ctx context.Context, l relock.Locker) {
	kit.ChildCheck(l.Lock(ctx))
	kit.ChildCheck(l.Unlock(ctx))
}

// benchSession starts a session with a client of its own. NewSession's context has
// no end, and so is like that of the calls that are measured.
func benchSession(b testing.TB, at kit.Addressed, opts ...relock.SessionOption) *relock.Session {
	b.Helper()
	s, err := relock.NewSession(kit.Background, kit.NewClient(b, at), opts...)
	kit.ChildCheck(err)
	b.Cleanup(func() { _ = s.Close(kit.Background) }) // the server may be gone
	return s
}

// expect reads what follows a word in the next such line of a helper process.
func expect(p *redistest.Proc, word string, into ...any) {
	text, err := p.Expect(word, 10*time.Minute)
	kit.ChildCheck(err)
	_, err = fmt.Sscan(text, into...)
	kit.ChildCheck(err)
}
