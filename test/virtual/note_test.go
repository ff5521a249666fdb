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
	"github.com/relock-go/relock/internal/memredis"
)

const noteWithin = 25 * time.Millisecond // after which a hold's note is in Redis

// The note of the present hold is in Redis, however the hold came about.
func TestNoteOfTheHold(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		here, there := w.process(), w.process()
		noted := func(want string) {
			t.Helper()
			st, err := there.s[0].Inspect(background, "a")
			require.NoError(t, err)
			require.Equal(t, want, st.Note)
		}
		with := func(note string, o ...relock.LockOption) *relock.Mutex {
			return here.s[0].Mutex("a", append(o, relock.WithNote(note))...)
		}
		unlock := func(l relock.Locker) {
			t.Helper()
			require.NoError(t, l.Unlock(background))
		}

		noted("")
		for _, l := range []relock.Locker{
			with("order 7"), with("order 7", relock.WithFixedLease(time.Minute)), with("order 7", relock.WithMaxHold(time.Hour)),
			here.s[0].FairMutex("a", relock.WithNote("order 7")), with("order 7", relock.WithLease(time.Second)),
		} {
			require.NoError(t, l.Lock(background))
			noted("order 7")
			time.Sleep(40 * time.Second) // it is renewed
			noted("order 7")
			unlock(l)
			noted("")
		}

		// Granted by another process.
		l, other := with("granted"), there.s[0].Mutex("a")
		for _, l := range []relock.Locker{l, with("granted", relock.WithFixedLease(time.Minute))} {
			require.NoError(t, other.Lock(background))
			got := begin(background, l)
			time.Sleep(time.Second)
			unlock(other)
			require.NoError(t, <-got)
			time.Sleep(noteWithin)
			noted("granted")
			unlock(l)
		}

		// Passed on in the process, to a hold with another note, and to one without.
		require.NoError(t, l.Lock(background))
		next, last := with("the next"), here.s[0].Mutex("a")
		second := begin(background, next)
		synctest.Wait()
		third := begin(background, last)
		synctest.Wait()
		unlock(l)
		require.NoError(t, <-second)
		time.Sleep(noteWithin)
		noted("the next")
		unlock(next)
		require.NoError(t, <-third)
		time.Sleep(noteWithin)
		noted("")
		unlock(last)

		// Kept.
		for _, note := range []string{"one", "two", "", "three", "three"} {
			l := with(note, relock.WithKeep(time.Hour))
			require.NoError(t, l.Lock(background))
			time.Sleep(noteWithin)
			noted(note)
			unlock(l)
			st, err := here.s[0].Inspect(background, "a")
			require.NoError(t, err)
			require.True(t, st.Kept)
			require.Empty(t, st.Note, "of the hold before")
		}
		time.Sleep(time.Minute)

		// Adopted.
		h, err := with("handed off").Acquire(background)
		require.NoError(t, err)
		ticket, err := h.Handoff(background, time.Minute)
		require.NoError(t, err)
		h, err = there.s[0].Adopt(background, ticket, relock.WithNote("adopted"))
		require.NoError(t, err)
		time.Sleep(noteWithin)
		noted("adopted")
		require.NoError(t, h.Unlock(background))
	})
}

// Of a read-write lock only the writer has a note. One that looks like the mark of readers that rest
// (lua/phase.lua) does not keep the lock.
func TestNoteOfAWriter(t *testing.T) {
	alone(t, &lockTypes[2], func(t *testing.T, w *world) {
		p := w.process()
		noted := func(want string) {
			t.Helper()
			st, err := p.s[0].Inspect(background, "a")
			require.NoError(t, err)
			require.Equal(t, want, st.Note)
		}
		rw := p.s[0].RWMutex("a", relock.WithNote("x readers 1 99999999999999"))
		require.NoError(t, rw.Lock(background))
		noted("x readers 1 99999999999999")
		require.NoError(t, rw.Unlock(background))
		require.NoError(t, rw.RLock(background))
		noted("")
		time.Sleep(time.Minute)
		noted("")
		require.NoError(t, rw.RUnlock(background))
		ok, err := rw.TryLock(background)
		require.NoError(t, err)
		require.True(t, ok)
		require.NoError(t, rw.Unlock(background))
	})
}

func TestNotesThatCannotBe(t *testing.T) {
	alone(t, &lockTypes[0], func(t *testing.T, w *world) {
		s := w.process().s[0]
		for _, note := range []string{strings.Repeat("x", 129), "two\nlines", "\xff"} {
			require.ErrorIs(t, s.Mutex("a", relock.WithNote(note)).Lock(background), relock.ErrOption)
		}
		require.ErrorIs(t, s.Semaphore("s", 1, relock.WithNote("x")).Lock(background), relock.ErrOption)
		l := s.Mutex("a", relock.WithNote(strings.Repeat("x", 128)))
		require.NoError(t, l.Lock(background))
		require.NoError(t, l.Unlock(background))
	})
}

// A note of a section that is over costs no command.
func TestNotesOfShortSectionsAreNotWritten(t *testing.T) {
	onKept(t, func(t *testing.T, w *world) {
		var seen renewals
		s := w.process(relock.WithObserver(&seen)).s[0]
		seen.takeRounds()
		for i := range 100 {
			l := s.Mutex("a", relock.WithKeep(time.Hour), relock.WithNote(strings.Repeat("x", i)))
			require.NoError(t, relock.Do(background, l, func(context.Context) error {
				time.Sleep(time.Millisecond)
				return nil
			}))
		}
		require.Empty(t, seen.takeRounds())
	})
}

// The servers of a Redlock differ by 100 ms in their clocks: each has the note.
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

// A renewal that was refused as one of a batch is sent again alone, without the fence key: the note
// is written later.
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

// The lock is free, and its queue has an entry of a dead process.
func TestNoteOfALockWithADeadWaiter(t *testing.T) {
	for queue, typ := range map[string]*lockType{
		"relock_queue:{a}": &lockTypes[0], "relock_rwqueue:{a}": writer,
	} {
		t.Run(typ.name, func(t *testing.T) {
			alone(t, typ, func(t *testing.T, w *world) {
				p := w.process()
				entry := "12345678-0000-8000-8000-000000000000:1"
				if typ == writer {
					entry += ":write"
				}
				w.do("ZADD", queue, "1", entry)
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
}

// The holder and a waiter are cut off, and the lease runs out.
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
