package virtual_test

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// closeMost is how much longer than its context Close may take.
const closeMost = 350 * time.Millisecond

// closeAll closes the sessions of p with a context that ends after d, and returns the first error.
func (p *process) closeAll(d time.Duration) (first error) {
	ctx, cancel := context.WithTimeout(background, d)
	defer cancel()
	for _, s := range p.s {
		if err := s.Close(ctx); first == nil {
			first = err
		}
	}
	return first
}

// Close left goroutines for 5 s or more, which could touch a client that was closed.
func TestCloseEndsWithItsContextAndLeavesNothing(t *testing.T) {
	partition := func(p *process) { p.partition() }
	for state, begin := range map[string]func(*process){
		"healthy": func(*process) {}, "hangs": partition, "dies": (*process).refuse,
		"hangs, then dies": func(p *process) { p.partition(); time.Sleep(20 * time.Second); p.refuse() },
		"hangs for long":   func(p *process) { p.partition(); time.Sleep(20 * time.Second) },
	} {
		for holds, bound := range map[int]time.Duration{0: time.Second, 1: 0, 9: time.Second, 300: time.Second} {
			t.Run(fmt.Sprint(state, ", ", holds, " holds"), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { closeIn(t, begin, holds, bound, state == "healthy") })
			})
		}
	}
}

func closeIn(t *testing.T, begin func(*process), holds int, bound time.Duration, healthy bool) {
	w := newWorld(t, &lockTypes[0])
	p := w.process()
	s := p.s[0]
	var locks []relock.Locker
	for i := range holds {
		l := []relock.Locker{s.Mutex(fmt.Sprint(i)), s.FairMutex(fmt.Sprint(i)), s.RWMutex(fmt.Sprint(i)), s.RWMutex(fmt.Sprint(i)).RLocker()}[i%4]
		require.NoError(t, l.Lock(background))
		locks = append(locks, l)
	}
	w.do("HSET", "waited for", "7b1c5a52-5a0e-4c57-9b55-0d8f8d1a6c11:47", "1")
	waiting := make(chan error, 1)
	go func() { waiting <- s.Mutex("waited for").Lock(background) }()
	synctest.Wait()
	begin(p)
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
	require.Zero(t, took(func() { require.Equal(t, err == nil || holds == 0, s.Close(background) == nil, "the same answer") }))
}

// An Unlock that waits for Redis while the session closes ends with Close. The hold was certain
// when it was called.
func TestCloseEndsUnlocks(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		if w.typ.redis > 1 {
			return // closed one after the other
		}
		p := w.process()
		l := p.lock()
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		require.NoError(t, l.Lock(ctx)) // from now on requests are pipelined, and can be given up
		p.partition()
		unlocked := make(chan error, 1)
		go func() { unlocked <- l.Unlock(background) }()
		synctest.Wait()
		require.LessOrEqual(t, took(func() { require.Error(t, p.closeAll(0)) }), closeMost)
		synctest.Wait()
		require.Len(t, unlocked, 1)
		require.NoError(t, <-unlocked)
	})
}

var goroutine = regexp.MustCompile(`(?m)^goroutine \d+ .*synctest bubble (\d+)`)

// stuck matches what nothing can end in rueidis: a call on its synchronous path, dialing, and
// closing.
var stuck = regexp.MustCompile(`rueidis\.(\(\*pipe\)\.(syncDo|syncDoMulti|Close)|_newPipe|\(\*mux\)\._pipe|\(\*singleconnect\))`)

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
