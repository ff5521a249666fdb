package virtual_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/memredis"
)

// Close ends an Eval whose context can end.
func TestEvalEndsWithTheSession(t *testing.T) {
	alone(t, &lockTypes[0], func(t *testing.T, w *world) {
		p := w.process()
		h, err := p.lock().(kit.Acquirer).Acquire(background)
		require.NoError(t, err)
		heal := p.partition()
		defer heal()
		ctx, cancel := context.WithTimeout(background, time.Hour)
		defer cancel()
		start := time.Now()
		got := make(chan error, 1)
		go func() { got <- h.Eval(ctx, countUp, []string{"{a}:count"}, []string{"2"}).Error() }()
		synctest.Wait()
		cctx, ccancel := context.WithTimeout(background, time.Minute)
		defer ccancel()
		err = p.s[0].Close(cctx)
		t.Log("close", time.Since(start), err)
		err = <-got
		t.Log("eval", time.Since(start), err)
		require.LessOrEqual(t, time.Since(start), 10*time.Second, "as long as Close takes without it")
	})
}

// A script whose own error begins with NOSCRIPT runs once.
func TestEvalNoScript(t *testing.T) {
	alone(t, &lockTypes[0], func(t *testing.T, w *world) {
		p := w.process()
		h, err := p.lock().(kit.Acquirer).Acquire(background)
		require.NoError(t, err)
		err = h.Eval(background, "redis.call('incr', KEYS[1]) return redis.error_reply('NOSCRIPT mine')", []string{"{a}:count"}, nil).Error()
		require.ErrorContains(t, err, "NOSCRIPT")
		w.counts(1)
		require.NoError(t, h.Unlock(background))
	})
}

func TestEvalNilByDigest(t *testing.T) {
	alone(t, &lockTypes[0], func(t *testing.T, w *world) {
		p := w.process()
		h, err := p.lock().(kit.Acquirer).Acquire(background)
		require.NoError(t, err)
		for range 3 {
			h.Eval(background, "return redis.call('get', KEYS[1])", []string{"{a}:none"}, nil)
		}
		n := memredis.Of(w.redis[0], p.s[0]).Server()
		var verbs []string
		n.OnCommand(func(verb string, args []string) string { verbs = append(verbs, verb); return "" })
		h.Eval(background, "return redis.call('get', KEYS[1])", []string{"{a}:none"}, nil)
		n.OnCommand(func(verb string, args []string) string { return "" })
		require.Contains(t, verbs, "EVALSHA")
		require.NoError(t, h.Unlock(background))
	})
}

func TestNoteOfRedlock(t *testing.T) {
	alone(t, &lockTypes[6], func(t *testing.T, w *world) {
		p := w.process()
		w.redis[1].StepClock(100 * time.Millisecond)
		for range 3 {
			l := p.held(relock.WithNote("order 7"))
			time.Sleep(time.Minute)
			for i, s := range p.s {
				st, err := s.Inspect(background, "a")
				require.NoError(t, err)
				assert.Equal(t, "order 7", st.Note, i)
			}
			require.NoError(t, l.Unlock(background))
			time.Sleep(time.Second)
		}
	})
}

// A renewal that was refused as one of a batch is sent alone, without the fence: the note is to come later.
func TestNoteAfterARefusedBatch(t *testing.T) {
	alone(t, &lockTypes[0], func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		held := other.held()
		l := p.lock(relock.WithNote("order 7"))
		got := begin(background, l)
		time.Sleep(time.Second)
		n := memredis.Of(w.redis[0], p.s[0]).Server()
		refused := 0
		n.OnCommand(func(verb string, args []string) string {
			if strings.HasPrefix(verb, "EVAL") && len(args) > 5 && args[1] == "2" && args[2] == "a" && refused == 0 {
				refused++
				return "TRYAGAIN Multiple keys request during rehashing of slot"
			}
			return ""
		})
		require.NoError(t, held.Unlock(background))
		require.NoError(t, <-got)
		time.Sleep(5 * time.Minute)
		require.Equal(t, 1, refused)
		n.OnCommand(func(verb string, args []string) string { return "" })
		st, err := p.s[0].Inspect(background, "a")
		require.NoError(t, err)
		require.NoError(t, l.Err())
		assert.Equal(t, "order 7", st.Note)
		require.NoError(t, l.Unlock(background))
	})
}

// A permit that is free while thousands of dead entries are before, and behind, a live one.
func TestSemaphoreDeadEntries(t *testing.T) {
	alone(t, semaphore, func(t *testing.T, w *world) {
		p, q, r := w.process(), w.process(), w.process()
		a, b := p.s[0].Semaphore("a", 2), q.s[0].Semaphore("a", 2)
		require.NoError(t, a.Lock(background))
		require.NoError(t, b.Lock(background))
		dead := func(from, to string) {
			w.do("EVAL", "for n = tonumber(ARGV[2]), tonumber(ARGV[3]) do redis.call('zadd', KEYS[1], n, ARGV[1] .. n .. ' 2 5000') end return 1",
				"1", "relock_queue:{a}", "12345678-0000-8000-8000-000000000000:", from, to)
		}
		live := r.s[0].Semaphore("a", 2)
		got := begin(background, live)
		time.Sleep(100 * time.Millisecond)
		dead("1", "5000")
		w.do("ZADD", "relock_queue:{a}", "9000000000000000", "12345678-0000-8000-8000-000000000000:7777 2 5000")
		start := time.Now()
		require.NoError(t, b.Unlock(background))
		require.NoError(t, <-got)
		t.Log(time.Since(start))
		assert.Less(t, time.Since(start), 2*time.Second)
		require.NoError(t, live.Unlock(background))
		require.NoError(t, a.Unlock(background))
	})
}

func TestFairDeadEntries(t *testing.T) {
	alone(t, fair, func(t *testing.T, w *world) {
		p, r := w.process(), w.process()
		a := p.held()
		got := begin(background, r.lock())
		time.Sleep(100 * time.Millisecond)
		w.do("EVAL", "for n = tonumber(ARGV[2]), tonumber(ARGV[3]) do redis.call('zadd', KEYS[1], n, ARGV[1] .. n) end return 1",
			"1", "relock_queue:{a}", "12345678-0000-8000-8000-000000000000:", "1", "5000")
		w.do("ZADD", "relock_queue:{a}", "9000000000000000", "12345678-0000-8000-8000-000000000000:7777")
		start := time.Now()
		require.NoError(t, a.Unlock(background))
		require.NoError(t, <-got)
		t.Log(time.Since(start))
		assert.Less(t, time.Since(start), 2*time.Second)
	})
}

// A lock that is free, though its queue still has an entry of a dead process.
func TestNoteOfALockWithAQueue(t *testing.T) {
	for i, queue := range []string{"relock_queue:{a}", "relock_queue:{a}", "relock_rwqueue:{a}"} {
		alone2b(t, i, queue)
	}
}

func alone2b(t *testing.T, i int, queue string) {
	t.Run(lockTypes[i].name, func(t *testing.T) {
		alone(t, &lockTypes[i], func(t *testing.T, w *world) {
			p := w.process()
			suffix := ""
			if i == 2 {
				suffix = ":write"
			}
			w.do("ZADD", queue, "1", "12345678-0000-8000-8000-000000000000:1"+suffix)
			l := p.held(relock.WithNote("order 7"))
			time.Sleep(5 * time.Minute)
			st, err := p.s[0].Inspect(background, "a")
			require.NoError(t, err)
			require.NoError(t, l.Err())
			assert.Equal(t, "order 7", st.Note)
			require.NoError(t, l.Unlock(background))
		})
	})
}

// The same without forged keys: the holder and a waiter are cut off, and the lease runs out.
func TestNoteAfterADeath(t *testing.T) {
	alone(t, fair, func(t *testing.T, w *world) {
		a, b, c := w.process(), w.process(), w.process()
		a.held(relock.WithLease(10 * time.Second))
		b.wait(0)
		a.die(false)
		time.Sleep(9990 * time.Millisecond)
		b.die(false)
		time.Sleep(50 * time.Millisecond)
		l := c.held(relock.WithNote("order 7"))
		time.Sleep(5 * time.Minute)
		st, err := c.s[0].Inspect(background, "a")
		require.NoError(t, err)
		require.NoError(t, l.Err())
		assert.Equal(t, "order 7", st.Note)
	})
}

// The queue of a semaphore expires while a live waiter polls: somebody who comes later is first.
func TestSemaphoreOrderBehindDeadEntries(t *testing.T) {
	alone(t, semaphore, func(t *testing.T, w *world) {
		p, q, r, late := w.process(), w.process(), w.process(), w.process()
		a, b := p.s[0].Semaphore("a", 2), q.s[0].Semaphore("a", 2)
		require.NoError(t, a.Lock(background))
		require.NoError(t, b.Lock(background))
		got := begin(background, r.s[0].Semaphore("a", 2))
		time.Sleep(100 * time.Millisecond)
		w.do("EVAL", "for n = 1, 5000 do redis.call('zadd', KEYS[1], n, ARGV[1] .. n .. ' 2 5000') end return 1",
			"1", "relock_queue:{a}", "12345678-0000-8000-8000-000000000000:")
		w.do("ZADD", "relock_queue:{a}", "9000000000000000", "12345678-0000-8000-8000-000000000000:7777 2 5000")
		require.NoError(t, b.Unlock(background))
		start := time.Now()
		for w.has("relock_queue:{a}") {
			require.Empty(t, got)
			time.Sleep(time.Millisecond)
		}
		t.Log("the queue is gone", time.Since(start))
		passed, err := late.s[0].Semaphore("a", 2).TryLock(background)
		require.NoError(t, err)
		require.False(t, passed, "it has passed one that waits")
		require.NoError(t, <-got)
	})
}

// Concurrent Eval and Handoff, Unlock, at all moments: no loss is told.
func TestEvalBesideTheEnd(t *testing.T) {
	for _, way := range []string{"handoff", "unlock", "unlock with waiter", "kept"} {
		for d := time.Duration(0); d < 12; d++ {
			alone3(t, way, d)
		}
	}
}

type attLosses struct {
	relock.NopObserver
	t *testing.T
}

func (l *attLosses) Lost(e relock.LostEvent) { l.t.Error("lost", e) }

func alone3(t *testing.T, way string, d time.Duration) {
	t.Run(way+d.String(), func(t *testing.T) {
		alone(t, &lockTypes[0], func(t *testing.T, w *world) {
			p, other := w.process(relock.WithObserver(&attLosses{t: t})), w.process()
			var o []relock.LockOption
			if way == "kept" {
				o = append(o, relock.WithKeep(time.Hour))
			}
			m := p.s[0].Mutex("a", o...)
			h, err := m.Acquire(background)
			require.NoError(t, err)
			var next <-chan error
			if way == "unlock with waiter" {
				next = begin(background, m)
				synctest.Wait()
			}
			p.delay(5 * time.Millisecond)
			got := make(chan error, 1)
			go func() {
				time.Sleep(d * time.Millisecond)
				got <- h.Eval(background, countUp, []string{"{a}:count"}, []string{"2"}).Error()
			}()
			time.Sleep(5 * time.Millisecond)
			if way == "handoff" {
				ticket, err := h.Handoff(background, time.Minute)
				require.NoError(t, err)
				a, err := other.s[0].Adopt(background, ticket)
				require.NoError(t, err)
				require.NoError(t, a.Unlock(background))
			} else {
				require.NoError(t, h.Unlock(background))
			}
			if err := <-got; err != nil {
				require.ErrorIs(t, err, relock.ErrNotHeld)
			}
			require.NotErrorIs(t, h.Err(), relock.ErrLost)
			if next != nil {
				require.NoError(t, <-next)
				require.NoError(t, m.Err())
				require.NoError(t, m.Unlock(background))
			}
			time.Sleep(time.Minute)
		})
	})
}

// An Eval whose reply is lost is not sent again.
func TestEvalLostReply(t *testing.T) {
	alone(t, &lockTypes[0], func(t *testing.T, w *world) {
		p := w.process()
		h, err := p.lock().(kit.Acquirer).Acquire(background)
		require.NoError(t, err)
		for i := range 4 {
			memredis.Of(w.redis[0], p.s[0]).DropReplies(1)
			_, err := countIn(h)
			t.Log(i, err)
			time.Sleep(time.Second)
			text, _ := w.counter()
			t.Log(text)
			require.NoError(t, h.Err())
			_, err = countIn(h)
			require.NoError(t, err)
			text, _ = w.counter()
			t.Log(text)
		}
		require.NoError(t, h.Unlock(background))
	})
}

func TestWriterDeadEntries(t *testing.T) {
	for _, side := range []*lockType{writer, reader} {
		t.Run(side.name, func(t *testing.T) {
			alone(t, side, func(t *testing.T, w *world) {
				p, r := w.process(), w.process()
				a := p.s[0].RWMutex("a")
				require.NoError(t, a.Lock(background))
				got := begin(background, r.lock())
				time.Sleep(100 * time.Millisecond)
				for _, k := range []string{"relock_rwqueue:{a}", "relock_rdqueue:{a}"} {
					suffix := ":write"
					if k == "relock_rdqueue:{a}" {
						suffix = ""
					}
					w.do("EVAL", "for n = 1, 15000 do redis.call('zadd', KEYS[1], n, ARGV[1] .. n .. ARGV[2]) end return 1",
						"1", k, "12345678-0000-8000-8000-000000000000:", suffix)
					w.do("ZADD", k, "9000000000000000", "12345678-0000-8000-8000-000000000000:77777"+suffix)
				}
				start := time.Now()
				require.NoError(t, a.Unlock(background))
				require.NoError(t, <-got)
				t.Log(time.Since(start))
				assert.Less(t, time.Since(start), 2*time.Second)
			})
		})
	}
}

// A delayed script of a permit that has ended, and of which the loss was told, while another permit lives.
func TestEvalOfAnEndedPermit(t *testing.T) {
	alone(t, semaphore, func(t *testing.T, w *world) {
		p, q := w.process(), w.process()
		other := q.s[0].Semaphore("a", 2)
		require.NoError(t, other.Lock(background))
		h, err := p.s[0].Semaphore("a", 2, relock.WithFixedLease(time.Second)).Acquire(background)
		require.NoError(t, err)
		p.delay(2 * time.Second)
		go func() { _ = h.Eval(background, countUp, []string{"{a}:count"}, []string{"2"}) }()
		<-h.Done()
		require.ErrorIs(t, h.Err(), relock.ErrLost)
		time.Sleep(500 * time.Millisecond) // one second and a half after the acquisition
		st, err := q.s[0].Inspect(background, "a")
		require.NoError(t, err)
		require.Len(t, st.Holders, 1)
		time.Sleep(5 * time.Second)
		_, err = w.counter()
		require.Error(t, err, "it has run")
	})
}
