package virtual_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
)

// onMutex runs f in a bubble with a Mutex.
func onMutex(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	alone(t, &lockTypes[0], f)
}

func (p *process) mutex(o ...relock.LockOption) *relock.Mutex { return p.s[0].Mutex("a", o...) }

// handsOff locks the Mutex and hands it off.
func (p *process) handsOff(d time.Duration) (ticket string) {
	p.w.t.Helper()
	ticket, err := p.taken().Handoff(background, d)
	require.NoError(p.w.t, err)
	return ticket
}

// adopts adopts what was handed off.
func (p *process) adopts(ticket string, o ...relock.LockOption) *relock.Hold {
	p.w.t.Helper()
	m, err := p.s[0].Adopt(background, ticket, o...)
	require.NoError(p.w.t, err)
	return m
}

// useless checks that nobody can adopt with a ticket, for that reason.
func (p *process) useless(ticket string, why error) {
	p.w.t.Helper()
	m, err := p.s[0].Adopt(background, ticket)
	require.Nil(p.w.t, m)
	require.ErrorIs(p.w.t, err, relock.ErrLost)
	require.ErrorIs(p.w.t, err, why)
}

// The lock is taken from the first Lock to the last Unlock, by one process after the other, whoever else wants it. The
// waiter keeps its place.
func TestTicketTakesTheLockToAnotherProcess(t *testing.T) {
	onMutex(t, func(t *testing.T, w *world) {
		a, b, c := w.process(), w.process(), w.process()
		m := a.taken()
		token, done := m.Token(), m.Done()
		waiter := c.mutex()
		waits := begin(background, waiter)
		time.Sleep(time.Second)
		ticket, err := m.Handoff(background, 10*time.Minute)
		require.NoError(t, err)
		require.True(t, kit.IsClosed(done))
		require.ErrorIs(t, m.Err(), relock.ErrNotHeld)
		require.ErrorIs(t, m.Unlock(background), relock.ErrNotHeld)
		_, err = m.Handoff(background, time.Minute)
		require.ErrorIs(t, err, relock.ErrNotHeld)
		for range 9 { // nothing renews it, and the hand-over is no time to come in
			for _, p := range []*process{a, b, c} {
				ok, err := p.mutex().TryLock(background)
				require.NoError(t, err)
				require.False(t, ok)
			}
			time.Sleep(time.Minute)
		}
		require.InDelta(t, time.Minute, w.ttl(), float64(2*time.Second))
		adopted := b.adopts(ticket)
		require.Equal(t, "a", adopted.Name())
		require.NoError(t, adopted.Err())
		require.Greater(t, adopted.Token(), token)
		require.InDelta(t, lease, w.ttl(), float64(time.Second))
		a.useless(ticket, relock.ErrGone)
		b.useless(ticket, relock.ErrGone)
		time.Sleep(10 * lease)
		require.NoError(t, adopted.Err(), "it is renewed")
		require.Empty(t, waits)
		token = adopted.Token()
		require.NoError(t, adopted.Unlock(background))
		require.NoError(t, <-waits)
		require.Greater(t, waiter.FencingToken(), token)
		require.NoError(t, waiter.Unlock(background))
		b.useless(ticket, relock.ErrExpired)
		require.True(t, w.free())
	})
}

// A lock whose ticket nobody uses is free when that is over, and not before.
func TestUnusedTicketFreesTheLock(t *testing.T) {
	for _, d := range []time.Duration{10 * time.Millisecond, time.Second, lease, 5 * time.Minute} {
		t.Run(d.String(), func(t *testing.T) {
			onMutex(t, func(t *testing.T, w *world) {
				a, b := w.process(relock.WithTenure(time.Hour)), w.process()
				m := a.taken()
				waiter := b.mutex()
				waits := begin(background, waiter)
				same := begin(background, a.mutex())
				time.Sleep(time.Second)
				ticket, err := m.Handoff(background, d)
				require.NoError(t, err)
				start := time.Now()
				require.NoError(t, <-waits)
				require.GreaterOrEqual(t, time.Since(start), d)
				require.LessOrEqual(t, time.Since(start), d+50*time.Millisecond)
				b.useless(ticket, relock.ErrExpired)
				require.NoError(t, waiter.Unlock(background))
				require.NoError(t, <-same, "who waited in the process that handed it off")
			})
		})
	}
}

func TestTicketWorksOnceHoweverManyTry(t *testing.T) {
	onMutex(t, func(t *testing.T, w *world) {
		var all []*process
		for i := range 5 {
			all = append(all, w.process())
			all[i].delay(time.Duration(i) * time.Millisecond)
		}
		for range 20 {
			ticket := all[0].handsOff(time.Minute)
			var mu sync.Mutex
			var won []*relock.Hold
			require.NoError(t, kit.Together(20, func(i int) error {
				m, err := all[i%5].s[0].Adopt(background, ticket)
				if err != nil {
					if errors.Is(err, relock.ErrGone) {
						return nil
					}
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				won = append(won, m)
				return nil
			}))
			require.Len(t, won, 1)
			require.NoError(t, won[0].Unlock(background))
			time.Sleep(time.Second)
			require.True(t, w.free())
		}
	})
}

// A reply is lost, to either call, or to both; or the request is.
func TestLostRepliesOfAHandoffDoNoHarm(t *testing.T) {
	faults := map[string]func(p *process){
		"none":    func(*process) {},
		"reply":   (*process).loseReply,
		"request": func(p *process) { p.refuse(); time.AfterFunc(3*time.Second, p.heal) },
		"outage":  func(p *process) { time.AfterFunc(9*time.Second, p.partition()) },
	}
	for at, first := range faults {
		for then, second := range faults {
			t.Run(at+", "+then, func(t *testing.T) {
				onMutex(t, func(t *testing.T, w *world) {
					a, b, c := w.process(), w.process(), w.process()
					m := a.taken()
					token := m.Token()
					waits := lockAndUnlock(c.mutex())
					first(a)
					ticket, err := m.Handoff(background, time.Minute)
					require.NoError(t, err)
					require.Len(t, w.fields(), 1)
					second(b)
					adopted := b.adopts(ticket)
					require.Len(t, w.fields(), 1)
					require.Greater(t, adopted.Token(), token)
					time.Sleep(3 * lease)
					require.NoError(t, adopted.Err())
					require.Empty(t, waits)
					a.useless(ticket, relock.ErrLost)
					require.NoError(t, adopted.Unlock(background))
					require.NoError(t, <-waits)
					time.Sleep(time.Second)
					require.True(t, w.free())
				})
			})
		}
	}
}

// What a call may have got is free again, soon if Redis can be reached, and in any case with the lease or the ticket.
func TestCancelledHandoffLeavesNothing(t *testing.T) {
	const d = time.Minute
	for _, outage := range []time.Duration{5 * time.Second, 3 * time.Minute} {
		for _, executed := range []bool{false, true} {
			t.Run(fmt.Sprint(outage, executed), func(t *testing.T) {
				onMutex(t, func(t *testing.T, w *world) {
					a, b := w.process(), w.process()
					require.NoError(t, b.adopts(a.handsOff(d)).Unlock(background)) // the server knows the script
					cut := func(p *process) (ctx context.Context) {
						p.delay(time.Second) // each way
						after := 500 * time.Millisecond
						if executed {
							after += time.Second
						}
						time.AfterFunc(after, func() { time.AfterFunc(outage, p.partition()) })
						ctx, cancel := context.WithTimeout(background, 4*time.Second)
						t.Cleanup(cancel)
						return ctx
					}
					freeBy := func(p *process, most time.Duration) {
						if p.delay(0); outage < time.Minute {
							most = outage + 3*time.Second
						}
						start := time.Now()
						require.NoError(t, <-lockAndUnlock(w.process().mutex()))
						require.LessOrEqual(t, time.Since(start), most+time.Second)
					}
					m := a.taken()
					_, err := m.Handoff(cut(a), d)
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.NotErrorIs(t, err, relock.ErrLost)
					require.ErrorIs(t, m.Unlock(background), relock.ErrNotHeld)
					freeBy(a, d)

					ticket := w.process().handsOff(d)
					_, err = b.s[0].Adopt(cut(b), ticket)
					require.ErrorIs(t, err, context.DeadlineExceeded)
					freeBy(b, d)
					b.useless(ticket, relock.ErrLost)
					time.Sleep(2 * outage)
				})
			})
		}
	}
}

// While a hold is handed off it can be lost as any other.
func TestHandoffTellsOfALoss(t *testing.T) {
	onMutex(t, func(t *testing.T, w *world) {
		p := w.process()
		for why, lose := range map[error]func(){
			relock.ErrGone:    func() { w.do("DEL", "a") },
			relock.ErrExpired: func() { time.AfterFunc(lease+time.Second, p.partition()) },
		} {
			m := p.taken()
			lose()
			start := time.Now()
			_, err := m.Handoff(background, time.Hour)
			require.ErrorIs(t, err, relock.ErrLost)
			require.ErrorIs(t, err, why)
			require.LessOrEqual(t, time.Since(start), told(lease))
			require.ErrorIs(t, m.Unlock(background), relock.ErrNotHeld)
			require.NoError(t, <-lockAndUnlock(p.mutex()))
		}
		m := p.taken(relock.WithFixedLease(time.Second))
		time.Sleep(2 * time.Second)
		_, err := m.Handoff(background, time.Hour)
		require.ErrorIs(t, err, relock.ErrExpired)
		require.NoError(t, p.s[0].Close(background))
		_, err = m.Handoff(background, time.Hour)
		require.ErrorIs(t, err, relock.ErrNotHeld)
		_, err = p.s[0].Adopt(background, w.process().handsOff(time.Second))
		require.ErrorIs(t, err, relock.ErrClosed)
	})
}

// Keys beside the lock, or in its place, are something else: the error says so, and the lock is not kept.
func TestHandoffBesideADamagedKey(t *testing.T) {
	onMutex(t, func(t *testing.T, w *world) {
		p := w.process()
		for key, gone := range map[string]bool{"relock_fence:{a}": false, "a": true} {
			m := p.taken()
			w.do("DEL", key)
			w.do("SADD", key, "x")
			_, err := m.Handoff(background, time.Hour)
			require.ErrorIs(t, err, relock.ErrNotLock)
			require.Equal(t, gone, errors.Is(err, relock.ErrGone), err)
			require.ErrorIs(t, m.Unlock(background), relock.ErrNotHeld)
			w.do("DEL", key)
			time.Sleep(time.Second)
			require.True(t, w.free())
			ticket := p.handsOff(time.Hour)
			w.do("DEL", key)
			w.do("SADD", key, "x")
			_, err = p.s[0].Adopt(background, ticket)
			require.ErrorIs(t, err, relock.ErrNotLock)
			w.do("DEL", "a", "relock_fence:{a}")
		}
	})
}

// Somebody opens the lock, or Redis loses it, while nobody has it but the ticket.
func TestTicketIsLostWithItsLock(t *testing.T) {
	onMutex(t, func(t *testing.T, w *world) {
		a, b := w.process(), w.process()
		for range 2 {
			ticket := a.handsOff(time.Hour)
			was, err := b.s[0].ForceUnlock(background, "a")
			require.NoError(t, err)
			require.True(t, was)
			b.useless(ticket, relock.ErrGone)
		}
		ticket := a.handsOff(time.Hour)
		w.restart(false)
		b.useless(ticket, relock.ErrGone)
		ticket = a.handsOff(time.Hour)
		w.restart(true)
		require.NoError(t, b.adopts(ticket).Unlock(background))
		time.Sleep(time.Minute)
		adopted := b.adopts(a.handsOff(time.Hour))
		_, err := a.s[0].ForceUnlock(background, "a")
		require.NoError(t, err)
		lost(t, adopted)
		require.ErrorIs(t, adopted.Err(), relock.ErrForced)
	})
}

// A wrong call says what is wrong, and ends the hold all the same, or leaves the ticket as it is.
func TestMisuseOfAHandoffIsToldAndHarmless(t *testing.T) {
	onMutex(t, func(t *testing.T, w *world) {
		a := w.process(relock.WithPrefix("p:"))
		ended, cancel := context.WithCancel(background)
		cancel()
		for _, c := range []struct {
			ctx  context.Context
			d    time.Duration
			want error
		}{
			{background, 0, relock.ErrOption}, {background, -time.Second, relock.ErrOption},
			{background, 10*time.Millisecond - 1, relock.ErrOption}, {ended, time.Minute, context.Canceled},
		} {
			m := a.taken()
			require.True(t, w.has("p:a"))
			_, err := m.Handoff(c.ctx, c.d)
			require.ErrorIs(t, err, c.want)
			require.NotErrorIs(t, err, relock.ErrLost)
			require.ErrorIs(t, m.Err(), relock.ErrNotHeld)
			require.ErrorIs(t, m.Unlock(background), relock.ErrNotHeld)
			synctest.Wait()
			require.False(t, w.has("p:a"))
		}
		ticket, err := a.taken().Handoff(background, time.Hour)
		require.NoError(t, err)

		for _, bad := range []string{"", "garbage", ticket[1:], ticket[:len(ticket)-1], ticket + "A", strings.ToUpper(ticket),
			ticket[:30] + "A" + ticket[31:], ticket[:30] + "B" + ticket[31:], ticket[:14]} {
			if bad == ticket {
				continue
			}
			_, err := a.s[0].Adopt(background, bad)
			require.ErrorContains(t, err, "not a ticket", bad)
			require.ErrorIs(t, err, relock.ErrOption)
			require.NotErrorIs(t, err, relock.ErrLost)
			require.NotContains(t, err.Error(), ticket[20:40])
		}
		_, err = w.process().s[0].Adopt(background, ticket)
		require.ErrorContains(t, err, `prefix "p:", this one has ""`)
		require.NotErrorIs(t, err, relock.ErrLost)
		_, err = a.s[0].Adopt(ended, ticket)
		require.ErrorIs(t, err, context.Canceled)
		_, err = a.s[0].Adopt(background, ticket, relock.WithMaxHold(0))
		require.ErrorIs(t, err, relock.ErrOption)
		other := newWorld(t, w.typ)
		other.warm = true
		other.process(relock.WithPrefix("p:")).useless(ticket, relock.ErrGone)
		require.NoError(t, a.adopts(ticket).Unlock(background))

		// In Do it ends the hold of Do, which has nothing to end then.
		require.NoError(t, relock.Do(background, a.mutex(), func(ctx context.Context) (err error) {
			ticket, err = relock.HoldOf(ctx).Handoff(ctx, time.Hour)
			require.NoError(t, ctx.Err())
			return err
		}))
		require.True(t, w.has("p:a"))
		require.NoError(t, a.adopts(ticket).Unlock(background))
		require.False(t, w.has("p:a"))
	})
}

// A listener records all that observers are told, as text.
type listener struct{ all []string }

func (l *listener) add(what ...any)                                   { l.all = append(l.all, fmt.Sprintf("%+v", what)) }
func (l *listener) Waiting(_ context.Context, e relock.WaitEvent)     { l.add("waiting", e) }
func (l *listener) Acquired(_ context.Context, e relock.AcquireEvent) { l.add("acquired", e) }
func (l *listener) Released(_ context.Context, e relock.ReleaseEvent) { l.add("released", e) }
func (l *listener) Lost(e relock.LostEvent)                           { l.add("lost", e) }
func (l *listener) Renewed(e relock.RenewEvent)                       { l.add("renewed", e) }
func (l *listener) Kept(e relock.KeepEvent)                           { l.add("kept", e) }

// Observers are told of an acquisition and a release on either side. Neither they, errors nor Inspect have the ticket, or
// what it is made of.
func TestTicketIsASecret(t *testing.T) {
	onMutex(t, func(t *testing.T, w *world) {
		var heard listener
		var log bytes.Buffer
		text := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		o := relock.WithObserver(relock.Observers(&heard, relock.SlogObserver(text)))
		w.process()
		a, b := w.process(o), w.process(o)
		ticket := a.handsOff(time.Minute)
		state, err := b.s[0].Inspect(background, "a")
		require.NoError(t, err)
		require.Len(t, state.Holders, 1)
		require.Equal(t, a.s[0].ID(), state.Holders[0].Session, "who has handed it off")
		require.NotEmpty(t, state.Holders[0].Label)
		adopted := b.adopts(ticket)
		require.NoError(t, adopted.Unlock(background))
		_, err = b.s[0].Adopt(background, ticket)
		require.ErrorIs(t, err, relock.ErrGone)
		var kinds []string
		for _, e := range heard.all {
			kinds = append(kinds, strings.Fields(strings.Trim(e, "["))[0])
		}
		require.Equal(t, []string{"acquired", "released", "acquired", "released", "acquired"}, slices.DeleteFunc(kinds,
			func(k string) bool { return k == "renewed" }))
		all := fmt.Sprint(heard.all, err, log.String(), fmt.Sprintf("%+v", state), fmt.Sprintf("%#v", adopted.Err()))
		for i := 14; i+8 <= len(ticket); i++ {
			require.NotContains(t, all, ticket[i:i+8])
		}
		require.NotEqual(t, ticket, a.handsOff(time.Second))
	})
}

// Who has adopted a lock shows its note, however it holds it.
func TestAdoptWritesItsNote(t *testing.T) {
	for what, o := range map[string]relock.LockOption{
		"renewed": relock.WithLease(10 * time.Second),
		"fixed":   relock.WithFixedLease(10 * time.Second),
		"at most": relock.WithMaxHold(10 * time.Second),
	} {
		t.Run(what, func(t *testing.T) {
			onMutex(t, func(t *testing.T, w *world) {
				p, adopter := w.process(), w.process()
				h := adopter.adopts(p.handsOff(time.Minute), o, relock.WithNote("order 7"))
				time.Sleep(25 * time.Millisecond)
				st, err := p.s[0].Inspect(background, "a")
				require.NoError(t, err)
				require.Equal(t, "order 7", st.Note)
				require.NoError(t, h.Unlock(background))
			})
		})
	}
}
