package virtual_test

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
)

// closeMost is how much longer than its context Close may take.
const closeMost = 350 * time.Millisecond

// closeAll closes the sessions of p with a context that ends after d.
func (p *process) closeAll(d time.Duration) error {
	ctx, cancel := context.WithTimeout(background, d)
	defer cancel()
	return kit.Together(len(p.s), func(i int) error { return p.s[i].Close(ctx) })
}

// Close left goroutines for 5 s or more, which could touch a client that was closed.
func TestCloseEndsWithItsContextAndLeavesNothing(t *testing.T) {
	for state, fault := range map[string]func(*process){
		"healthy": func(*process) {}, "hangs": func(p *process) { p.partition() }, "dies": (*process).refuse,
		"hangs, then dies": func(p *process) { p.partition(); time.Sleep(20 * time.Second); p.refuse() },
		"hangs for long":   func(p *process) { p.partition(); time.Sleep(20 * time.Second) },
	} {
		for holds, bound := range map[int]time.Duration{0: time.Second, 1: 0, 9: time.Second, 300: time.Second} {
			t.Run(fmt.Sprint(state, ", ", holds, " holds"), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { closeIn(t, fault, holds, bound, state == "healthy") })
			})
		}
	}
}

func closeIn(t *testing.T, fault func(*process), holds int, bound time.Duration, healthy bool) {
	w := newWorld(t, &lockTypes[0])
	p := w.process()
	s := p.s[0]
	var locks []relock.Locker
	for i := range holds {
		name := fmt.Sprint(i)
		rw := s.RWMutex(name)
		l := []relock.Locker{s.Mutex(name), s.FairMutex(name), rw, rw.RLocker()}[i%4]
		require.NoError(t, l.Lock(background))
		locks = append(locks, l)
	}
	w.do("HSET", "waited for", "7b1c5a52-5a0e-4c57-9b55-0d8f8d1a6c11:47", "1")
	waiting := begin(background, s.Mutex("waited for"))
	synctest.Wait()
	fault(p)
	var err error
	require.LessOrEqual(t, took(func() { err = p.closeAll(bound) }), bound+closeMost)
	if !healthy && holds > 0 {
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 1, len(strings.Split(err.Error(), "\n")), err.Error())
	} else if healthy {
		require.NoError(t, err)
	}
	for _, l := range locks {
		require.ErrorIs(t, l.Err(), relock.ErrLost)
		require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
	}
	synctest.Wait()
	require.ErrorIs(t, <-waiting, relock.ErrClosed)
	require.Empty(t, left(t), "goroutines of relock")
	again := took(func() { require.Equal(t, err == nil || holds == 0, s.Close(background) == nil, "the same answer") })
	require.Zero(t, again)
}

// An Unlock that waits for Redis while the session closes ends with Close: the hold was certain when it was called.
// Close names what is not released, also if an Unlock was to release it, and releases it if it can.
func TestCloseTellsOfUnconfirmedUnlocks(t *testing.T) {
	for what, row := range map[string]struct{ outage, bound time.Duration }{
		"over soon": {time.Second, 10 * time.Second}, "long": {time.Hour, 10 * time.Second},
		"Unlock is under way": {time.Hour, 0},
	} {
		t.Run(what, func(t *testing.T) {
			onEach(t, func(t *testing.T, w *world) {
				p, ctx, cancel := w.process(), background, func() {}
				if row.bound == 0 { // requests are pipelined, and can be given up
					ctx, cancel = context.WithCancel(ctx)
				}
				defer cancel()
				l := p.lock()
				require.NoError(t, l.Lock(ctx))
				synctest.Wait()
				heal := p.partition()
				unlocked := kit.Async(func() error { return l.Unlock(background) })
				synctest.Wait()
				if row.bound > 0 {
					time.Sleep(2 * time.Second) // it gives up
				}
				time.AfterFunc(row.outage, heal)
				var err error
				require.LessOrEqual(t, took(func() { err = p.closeAll(row.bound) }), row.bound+closeMost)
				synctest.Wait()
				require.Len(t, unlocked, 1)
				require.NoError(t, <-unlocked)
				require.True(t, err != nil || w.free(), "Close returned nil, and the lock is still in Redis")
				time.Sleep(3 * time.Second)
				require.True(t, row.outage > time.Minute || w.free(), "left behind, 3 s after Close: %v", err)
			})
		})
	}
}

// The lock of a hold whose grant came during Close stayed taken for its lease. So did its Done stay open for good
// if Close was abandoned before the reply came.
func TestHoldGrantedDuringCloseIsLostAndReleased(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.process() // has the servers know the scripts
		granted, grantedLate := 0, 0
		for after := time.Millisecond; after < 80*time.Millisecond; after += 13 * time.Millisecond {
			for i := range 4 {
				ctx, abandoned := []context.Context{background, t.Context()}[i%2], i > 1
				p := w.process()
				p.delay(10 * time.Millisecond)
				l := p.lock()
				locked := begin(ctx, l)
				time.Sleep(after)
				heal, bound := func() {}, time.Second
				if abandoned {
					heal, bound = p.partition(), 0
				}
				_ = p.closeAll(bound)
				late := len(locked) == 0
				heal()
				if err := <-locked; err != nil {
					require.ErrorIs(t, err, relock.ErrClosed)
				} else {
					require.True(t, kit.IsClosed(l.Done()))
					require.ErrorIs(t, l.Err(), relock.ErrLost)
					require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
					granted++
					grantedLate += map[bool]int{true: 1}[late]
				}
				if !abandoned {
					require.True(t, w.free(), "closed after %v", after)
				}
				time.Sleep(lease)
			}
		}
		require.NotZero(t, granted)
		require.Zero(t, grantedLate, "a call waits for a reply beyond Close")
	})
}

// A session closes while goroutines of it and of others wait: its holders are told, its waiters
// end, nothing of it is left, and who waits elsewhere gets in at once.
func TestCloseLetsTheOthersIn(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		l, next := p.held(), other.opposite()
		got := begin(background, next)
		var ended []<-chan error
		for i := range 4 {
			ctx := []context.Context{background, p.s[0].NewContext(background)}[i%2]
			ended = append(ended, begin(ctx, p.opposite()))
		}
		time.Sleep(time.Minute)
		start := time.Now()
		require.NoError(t, p.closeAll(time.Minute))
		for _, ended := range ended {
			err := <-ended
			require.ErrorIs(t, err, relock.ErrClosed)
			require.NotErrorIs(t, err, context.Canceled)
		}
		require.NoError(t, <-got)
		require.LessOrEqual(t, time.Since(start), w.slow()+100*time.Millisecond)
		lost(t, l)
		require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
		require.ErrorIs(t, l.Unlock(background), relock.ErrNotHeld)
		require.NoError(t, next.Err())
		require.NoError(t, next.Unlock(background))
		time.Sleep(time.Second)
		require.True(t, w.free())
		_, err := l.TryLock(background)
		require.ErrorIs(t, err, relock.ErrClosed)
	})
}

var goroutine = regexp.MustCompile(`(?m)^goroutine \d+ .*synctest bubble (\d+)`)

// stuck matches what nothing can end in rueidis: a call that was left behind there, dialing, and
// closing.
var stuck = regexp.MustCompile(
	`rueidis\.(\(\*pipe\)\.(Do|DoMulti|syncDo|syncDoMulti|Close)|_newPipe|\(\*mux\)\._pipe|\(\*singleconnect\))`)

// left returns the stacks of this bubble's goroutines that a session has started or runs in,
// without those stuck in rueidis.
func left(t *testing.T) (stacks []string) {
	t.Helper()
	buf := make([]byte, 64<<20)
	all := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
	own := goroutine.FindStringSubmatch(all[0])
	require.NotNil(t, own, all[0])
	for _, stack := range all[1:] {
		m := goroutine.FindStringSubmatch(stack)
		ours := strings.ReplaceAll(stack, "relock/internal/memredis", "")
		if m != nil && m[1] == own[1] && strings.Contains(ours, "relock/internal/") && !stuck.MatchString(stack) {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}

// A session closes amid the releases of what it has kept for its time: nothing is left of them either.
func TestCloseAmidTheReleasesOfWhatWasKept(t *testing.T) {
	const way = 20 * time.Millisecond
	onKept(t, func(t *testing.T, w *world) {
		for after := time.Duration(0); after < 150*time.Millisecond; after += 13 * time.Millisecond {
			p := w.process()
			var names []string
			for i := range 30 {
				names = append(names, "b"+strconv.Itoa(i))
				pair(t, p.s[0].Mutex(names[i], relock.WithKeep(time.Minute)))
				time.Sleep(3 * time.Millisecond)
			}
			p.delay(way)
			time.Sleep(time.Minute - 90*time.Millisecond + after)
			require.LessOrEqual(t, took(func() { require.NoError(t, p.s[0].Close(background)) }), 4*2*way)
			require.False(t, w.has(names...), "closed after %v", after)
		}
	})
}
