package virtual_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/memredis"
)

// skews are by how much the clocks of servers are wrong.
var skews = []time.Duration{7 * time.Minute, 0, -3 * time.Minute, 5 * time.Minute, -11 * time.Minute}

// inSkew runs f in a bubble with so many servers, whose clocks differ by minutes.
func inSkew(t *testing.T, servers int, f func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		typ := *redlock
		typ.redis = servers
		w := newWorld(t, &typ)
		for i, r := range w.redis {
			r.StepClock(skews[i])
		}
		f(t, w)
	})
}

// redlock locks a Redlock of the process, and returns its token.
func (p *process) redlock(o ...relock.LockOption) (*relock.Hold, int64) {
	l := p.taken(o...)
	return l.Hold, l.Token()
}

// token returns the last token that a server knows of the lock, 0 if it knows none.
func (w *world) token(i int) int64 {
	w.t.Helper()
	c := w.redis[i].Client()
	text, _ := c.Do(background, c.B().Get().Key("relock_fence:{a}").Build()).ToString()
	last, _, _ := strings.Cut(text, " ") // behind it is who got it
	n, _ := strconv.ParseInt(last, 10, 64)
	return n
}

// tokens returns on how many servers the lock is held, and no later token is smaller than this one.
func (w *world) tokens(token int64) (n int) {
	w.t.Helper()
	synctest.Wait()
	for i := range w.redis {
		if !w.one(i).free() && w.token(i) >= token {
			n++
		}
	}
	return n
}

// Every time another minority is out of reach, of another process, and the time in between is from milliseconds to
// longer than servers remember tokens that are not ahead of their clocks.
func TestTokensOfARedlockGrowWhicheverMajorityGrants(t *testing.T) {
	for _, n := range []int{3, 5} {
		for what := range outages {
			t.Run(fmt.Sprint(n, " servers, ", what), func(t *testing.T) {
				inSkew(t, n, func(t *testing.T, w *world) {
					ps := []*process{w.process(), w.process()}
					var last int64
					for round := range 4 * n {
						p := ps[round/2%2]
						for i := range n / 2 {
							p.on(outages[what], (round+i*(1+round/n))%n)
						}
						l, token := p.redlock()
						require.Greater(t, token, last, "round %d", round)
						require.GreaterOrEqual(t, w.tokens(token), n/2+1, "round %d", round)
						last = token
						require.NoError(t, l.Unlock(background))
						require.Equal(t, token, l.Token(), "also after its end")
						p.networks(heal)
						time.Sleep([]time.Duration{ms, 3 * time.Second, ms, 70 * time.Second}[round%4])
					}
				})
			})
		}
	}
}

// Goroutines that pass it on have tokens of one block, and the next process has a larger one.
func TestTokensOfARedlockGrowWhenItIsPassedOn(t *testing.T) {
	inSkew(t, 3, func(t *testing.T, w *world) {
		ps := []*process{w.process(relock.WithTenure(time.Minute)), w.process(relock.WithTenure(time.Minute))}
		last, passed := int64(0), 0
		for round := range 15 {
			p := ps[round%2]
			p.on(down, round/2%3)
			l, first := p.redlock()
			var tokens []int64
			done := make(chan error, 5)
			for range 5 {
				go func() {
					done <- relock.Do(background, p.lock(), func(ctx context.Context) error {
						tokens = append(tokens, relock.Token(ctx))
						return nil
					})
				}()
				time.Sleep(time.Millisecond)
			}
			require.Greater(t, first, last)
			require.NoError(t, l.Unlock(background))
			for range 5 {
				require.NoError(t, <-done)
			}
			for _, token := range tokens {
				if token == first+1 {
					passed++
				}
				require.Greater(t, token, first)
				first = token
			}
			last = first
			p.networks(heal)
			time.Sleep(time.Second)
		}
		require.Greater(t, passed, 7, "it is passed on where the clock of a server allows it")
	})
}

// A part that is taken while the lock is held has its token, also if its server is far behind or has lost its data.
func TestRepairedPartsHaveTheTokenOfTheRedlock(t *testing.T) {
	inSkew(t, 5, func(t *testing.T, w *world) {
		p := w.process()
		p.on(down, 3, 4)
		l, token := p.redlock()
		require.Equal(t, 3, w.tokens(token))
		p.on(heal, 3, 4)
		time.Sleep(lease)
		require.Equal(t, 5, w.tokens(token))
		// All servers lose their data, one after the other: somebody who then gets a majority has a larger token.
		for i := range w.redis {
			w.redis[i].Restart(false)
			time.Sleep(lease)
			require.Equal(t, 5, w.tokens(token))
		}
		require.NoError(t, l.Unlock(background))
		other := w.process()
		other.on(down, 0, 3) // whose clocks are ahead
		_, next := other.redlock()
		require.Greater(t, next, token)
	})
}

// faults are what can happen to servers between their grants and the second round trip, to some of three.
var betweenRounds = map[string]func(w *world, p *process, which ...int){
	"hang": func(_ *world, p *process, which ...int) { p.on(outages["hang"], which...) },
	"down": func(_ *world, p *process, which ...int) { p.on(down, which...) },
	"lost": func(w *world, _ *process, which ...int) {
		for _, i := range which {
			w.one(i).del()
		}
	},
	"somebody else's": func(w *world, _ *process, which ...int) {
		for _, i := range which {
			w.one(i).del()
			w.redis[i].Hold("a")
		}
	},
}

// far has a process whose first requests to the servers are executed after these times, and its second ones after
// another twice that.
func far(w *world, delays ...time.Duration) *process {
	p := w.process()
	for i, d := range delays {
		p.on(func(n *memredis.Process) { n.Delay(d) }, i)
	}
	return p
}

const ms = time.Millisecond

// It is held if a majority confirms its token, and otherwise nothing is left of it.
func TestRedlockWhoseTokenNoMajorityConfirmsIsNotHeld(t *testing.T) {
	for what, harm := range betweenRounds {
		for n := range 3 {
			t.Run(fmt.Sprint(n+1, " ", what), func(t *testing.T) {
				inSkew(t, 3, func(t *testing.T, w *world) {
					p := far(w, 9*ms, 10*ms, 10*ms)
					time.AfterFunc(25*ms, func() { harm(w, p, []int{2, 1, 0}[:n+1]...) })
					l := p.lock().(*relock.Redlock)
					ok, _ := l.TryLock(background)
					require.Equal(t, n == 0, ok)
					if ok {
						require.Equal(t, 2, w.tokens(l.FencingToken()))
						require.NoError(t, l.Unlock(background))
					} else {
						require.Zero(t, l.FencingToken())
						require.ErrorIs(t, l.Unlock(background), relock.ErrNotHeld)
					}
					p.networks(heal)
					time.Sleep(2 * lease)
					for i := range w.redis {
						require.Equal(t, what != "somebody else's" || i < 2-n, w.one(i).free())
					}
				})
			})
		}
	}
}

// The token of a server that grants the lock after the token was chosen may be larger. If it counted, a former hold that
// had its majority there could have had a larger token.
func TestLateGrantWithALargerTokenCountsForNoMajority(t *testing.T) {
	for _, c := range []struct {
		ahead time.Duration // the clock of the last server; that of the first is by a minute
		held  bool
	}{{2 * time.Minute, false}, {0, true}} {
		t.Run(c.ahead.String(), func(t *testing.T) {
			alone(t, redlock, func(t *testing.T, w *world) {
				p := far(w, 9*ms, 10*ms, 12*ms)
				w.redis[0].StepClock(time.Minute)
				w.redis[2].StepClock(c.ahead)
				time.AfterFunc(25*ms, func() { p.on(outages["hang"], 1) })
				l := p.lock()
				ok, err := l.TryLock(background)
				require.NoError(t, err)
				require.Equal(t, c.held, ok)
				if ok {
					require.NoError(t, l.Unlock(background))
				}
				p.networks(heal)
				time.Sleep(2 * lease)
				require.True(t, w.free())
			})
		})
	}
}

// It has all of the token's block behind it, also if its own token is one of them.
func TestLateGrantBelongsToTheHoldWithItsToken(t *testing.T) {
	for _, ahead := range []time.Duration{-time.Minute, 0, ms, time.Minute} {
		t.Run(ahead.String(), func(t *testing.T) {
			alone(t, redlock, func(t *testing.T, w *world) {
				w.redis[2].StepClock(ahead)
				p := far(w, 0, 0, 12*ms)
				l, token := p.redlock()
				require.Less(t, w.holders(), 3)
				time.Sleep(50 * ms)
				require.Equal(t, 3, w.tokens(token))
				require.NoError(t, l.Unlock(background))
			})
		})
	}
}

// It ends while a part is on its way to it.
func TestPartWhoseTokenIsConfirmedAfterTheEndIsGivenBack(t *testing.T) {
	alone(t, redlock, func(t *testing.T, w *world) {
		w.redis[2].StepClock(-time.Minute)
		p := far(w, 0, 0, 20*ms)
		l := p.held()
		time.Sleep(50 * ms) // the second request to the last server is on its way
		require.NoError(t, l.Unlock(background))
		time.Sleep(time.Minute)
		require.True(t, w.free())
	})
}

// What ends a call ends it in the second round trip as well, at once, and nothing is left.
func TestSecondRoundOfARedlockEndsWithItsCall(t *testing.T) {
	for what, end := range map[string]struct {
		f    func(p *process, cancel func())
		want error
	}{
		"ctx":   {func(_ *process, cancel func()) { cancel() }, context.Canceled},
		"close": {func(p *process, _ func()) { kit.Async(func() error { return p.closeAll(time.Minute) }) }, relock.ErrClosed},
	} {
		t.Run(what, func(t *testing.T) {
			inSkew(t, 3, func(t *testing.T, w *world) {
				p := far(w, 90*ms, 100*ms, 100*ms) // the first has the largest token
				ctx, cancel := context.WithCancel(background)
				defer cancel()
				locked := begin(ctx, p.lock())
				time.Sleep(250 * ms)
				require.Equal(t, 3, w.holders())
				require.LessOrEqual(t, took(func() {
					end.f(p, cancel)
					require.ErrorIs(t, <-locked, end.want)
				}), 350*ms, "requests under way end, perhaps of a script that the server does not know")
				time.Sleep(2 * lease)
				require.True(t, w.free())
			})
		})
	}
}

// Observers, State and Do tell it.
func TestTokenOfARedlockIsToldEverywhere(t *testing.T) {
	inSkew(t, 3, func(t *testing.T, w *world) {
		told := make(chan int64, 10)
		p := w.process(relock.WithObserver(tokens{c: told}))
		for len(told) > 0 {
			<-told
		}
		require.NoError(t, relock.Do(background, p.lock(), func(ctx context.Context) error {
			token := relock.Token(ctx)
			require.Positive(t, token)
			require.Equal(t, token, <-told)
			synctest.Wait()
			for _, s := range p.s {
				state, err := s.Inspect(ctx, "a")
				require.NoError(t, err)
				require.GreaterOrEqual(t, state.Token, token) // a grant that came late may have a larger one
			}
			return nil
		}))
		l, token := p.redlock()
		for _, r := range w.redis {
			r.Lose("a")
		}
		lost(t, l)
		require.Equal(t, token, l.Token(), "also after its loss")
	})
}

type tokens struct {
	relock.NopObserver
	c chan int64
}

func (o tokens) Acquired(_ context.Context, e relock.AcquireEvent) { o.c <- e.Token }
