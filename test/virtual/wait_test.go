package virtual_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// passedOn reports whether holds of the type may go to another goroutine of the process.
func (w *world) passedOn() bool { return w.typ.name == "Mutex" || w.typ.name == "writer" }

// fenced is a lock with tokens.
type fenced interface {
	relock.Locker
	FencingToken() int64
}

// A hold that is passed on has at least half of its lease, or of its grant timeout, even if Redis does not answer.
func TestHoldIsPassedOnOnlyWithHalfOfItsLease(t *testing.T) {
	for what, least := range map[string]time.Duration{"hold": lease / 2, "claim": claim / 2} {
		for late, want := range map[time.Duration]bool{0: true, 1: false} {
			t.Run(fmt.Sprint(what, " ", late), func(t *testing.T) {
				onEach(t, func(t *testing.T, w *world) {
					if !w.passedOn() && (w.typ != redlock || what == "claim") {
						return
					}
					p, other := w.process(relock.WithTenure(time.Hour)), w.process()
					l, left := p.lock(), certain(lease)
					if what == "hold" {
						require.NoError(t, l.Lock(background))
					} else {
						granted := p.handOver(other, time.Second)
						deadline, _ := granted.Deadline()
						l = granted
						left = time.Until(deadline)
						require.LessOrEqual(t, left, claim)
					}
					heal := p.partition()
					next := p.lock()
					got := begin(background, next)
					time.Sleep(left - least + late)
					go func() { _ = l.Unlock(background) }()
					synctest.Wait()
					require.Equal(t, want, len(got) > 0)
					heal()
					require.NoError(t, <-got)
					require.NoError(t, next.Unlock(background))
				})
			})
		}
	}
}

// The tenure is counted from the acquisition in Redis.
func TestHoldIsPassedOnUntilItsTenureEnds(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		if !w.passedOn() {
			return
		}
		const tenure, section = 10 * time.Millisecond, 4 * time.Millisecond
		p := w.process(relock.WithTenure(tenure))
		tokens := make(chan int64, 7)
		for range cap(tokens) {
			go func() {
				l := p.held()
				tokens <- l.(fenced).FencingToken()
				time.Sleep(section)
				_ = l.Unlock(background)
			}()
			synctest.Wait() // it queues behind the others
		}
		time.Sleep(time.Second)
		require.Len(t, tokens, cap(tokens))
		var passed []bool
		for last := <-tokens; len(tokens) > 0; {
			token := <-tokens
			require.Greater(t, token, last)
			passed = append(passed, token == last+1) // of the same block
			last = token
		}
		require.Equal(t, []bool{true, true, false, true, true, false}, passed)
	})
}

// A block of tokens is used to its end and not beyond: the next block may begin right behind it. A
// Group has a block for each member, which is passed on to those who lock that member alone.
func TestHoldIsPassedOnAsOftenAsThereAreTokens(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		if !w.passedOn() && w.typ.name != "Group" {
			return
		}
		p := w.process(relock.WithTenure(time.Hour))
		require.NoError(t, p.held().Unlock(background)) // at this instant, so that the next block is short
		first, tokens := p.held(), make(chan int64, 100)
		for range cap(tokens) {
			go func() {
				l, ok := p.lock().(fenced)
				if !ok {
					l = p.s[0].Mutex("a")
				}
				_ = l.Lock(background)
				tokens <- l.FencingToken()
				_ = l.Unlock(background)
			}()
		}
		synctest.Wait()
		last := int64(0)
		if l, ok := first.(fenced); ok {
			last = l.FencingToken()
		}
		require.NoError(t, first.Unlock(background))
		for range cap(tokens) {
			token := <-tokens
			require.Greater(t, token, last)
			last = token
		}
	})
}

// Redis forgets the last token a minute after the acquisition, and with its data.
func TestTokensGrowWhateverRedisForgets(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		last := int64(0)
		for _, forget := range []func(){
			func() {},
			func() { time.Sleep(2 * time.Minute) },
			func() { w.redis[0].Restart(true) },
			func() { w.redis[0].Restart(false); time.Sleep(time.Millisecond) },
			func() { w.redis[0].StepClock(time.Hour) },
			func() { w.redis[0].StepClock(-time.Second) }, // it remembers the last token
			func() { w.redis[0].StepClock(-time.Hour) },
			func() { time.Sleep(2 * time.Minute) }, // until its clock has passed that
			func() {},
		} {
			l := p.held()
			tokens, ok := l.(fenced)
			if !ok {
				return
			}
			require.Greater(t, tokens.FencingToken(), last)
			last = tokens.FencingToken()
			require.NoError(t, l.Unlock(background))
			forget()
		}
	})
}

// The request is executed when the network heals, long after its caller has gone.
func TestCancelledLockWhoseRequestIsLateLeavesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		heal := p.partition()
		start := time.Now()
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		require.ErrorIs(t, p.lock().Lock(ctx), context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))
		time.Sleep(time.Second)
		heal()
		time.Sleep(lease / 3)
		require.True(t, w.free())
		l := p.held()
		require.NoError(t, l.Unlock(background))
	})
}

// Lock rides out an outage of any length. What closed connections deliver when it ends are requests
// of this very call; those of a Redlock or a Group are of rounds long given up, and hold it for a lease at most.
func TestLockRidesOutAnOutage(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		const outage = 3 * time.Minute
		start := time.Now()
		time.AfterFunc(outage, p.partition())
		l := p.held()
		took := time.Since(start)
		require.GreaterOrEqual(t, took, outage)
		late := 2 * time.Second
		if w.typ.redis > 1 || strings.Contains(w.typ.name, "Group") {
			late += lease
		}
		require.Less(t, took, outage+late)
		require.NoError(t, l.Unlock(background))
	})
}

// WithWait bounds all of Lock, also the first attempt, while Redis does not answer. In a group it bounds
// the attempt at a member, and the wait for it, which follows if the attempt was given up before that.
func TestWaitBoundsTheFirstAttempt(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		l := p.lock(relock.WithWait(time.Second))
		g := relock.NewGroup(l, p.lock())
		heal := p.partition()
		defer heal()
		for l, most := range map[relock.Locker]time.Duration{l: time.Second, g: 2 * time.Second} {
			start := time.Now()
			err := l.Lock(background)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, relock.ErrUnavailable)
			require.LessOrEqual(t, time.Since(start), most+100*time.Millisecond)
		}
	})
}
