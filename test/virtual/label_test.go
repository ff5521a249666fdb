package virtual_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/relocktest"
)

// label returns what Redis has as the label of a session, empty if nothing, and its time to live.
func label(t testing.TB, r *relocktest.Redis, s *relock.Session) (text string, ttl time.Duration) {
	t.Helper()
	c, key := r.Client(), "relock_session:{"+s.ID()+"}"
	text, err := c.Do(background, c.B().Get().Key(key).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return "", 0
	}
	require.NoError(t, err)
	ms, err := c.Do(background, c.B().Pttl().Key(key).Build()).AsInt64()
	require.NoError(t, err)
	return text, time.Duration(ms) * time.Millisecond
}

func TestInspectTellsTheLabelsOfHolders(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var s []*relock.Session
		for i, r := range w.redis {
			s = append(s, r.Session(relock.WithLabel(fmt.Sprint("worker 7, server ", i))))
		}
		p := &process{w: w, s: s}
		other := w.process()
		inspect := func() {
			t.Helper()
			for i, r := range w.redis {
				for _, name := range w.typ.names {
					st, err := other.s[i].Inspect(background, name)
					require.NoError(t, err)
					require.Len(t, st.Holders, 1)
					require.Equal(t, fmt.Sprint("worker 7, server ", i), st.Holders[0].Label)
				}
				_, ttl := label(t, r, s[i])
				require.GreaterOrEqual(t, ttl, w.ttl()-time.Millisecond, "the lock outlives its label")
			}
		}
		l := p.held()
		inspect()
		for range 30 {
			time.Sleep(7 * time.Second)
			inspect()
		}
		require.NoError(t, l.Unlock(background))
		time.Sleep(lease/3 + lease/100)
		for i, r := range w.redis {
			text, _ := label(t, r, s[i])
			require.Empty(t, text, "nothing was held for a little more than a third of a lease")
		}

		l = p.held()
		inspect()
		p.partition() // as if it were dead
		lost(t, l)
		time.Sleep(lease + lease/3)
		for i, r := range w.redis {
			text, _ := label(t, r, s[i])
			require.Empty(t, text, "a dead process has a label")
		}
	})
}

// A session that only holds writes its label with the renewals, and at no other time.
func TestLabelIsWrittenWithRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := relocktest.New(t)
		s := redis.Session()
		a := s.Mutex("a")
		require.NoError(t, a.Lock(background))
		time.Sleep(lease / 9) // the other lock will not be renewed when the label is due
		require.NoError(t, s.Mutex("b").Lock(background))
		require.NoError(t, a.Unlock(background))
		time.Sleep(lease / 3)
		const length = lease + lease/3 + lease/12
		for range 20 {
			time.Sleep(lease/3 - time.Millisecond)
			_, ttl := label(t, redis, s)
			require.LessOrEqual(t, ttl, length-lease/4)
			time.Sleep(time.Millisecond)
			synctest.Wait()
			_, ttl = label(t, redis, s)
			require.Equal(t, length, ttl)
		}
	})
}

func TestSessionThatWaitsHasALabel(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		if !w.exclusive() {
			return
		}
		holder, p := w.process(), w.process(relock.WithLabel("waits"))
		l := holder.held()
		ctx, cancel := context.WithCancel(background)
		got := make(chan error)
		go func() { got <- p.lock().Lock(ctx) }()
		for range 10 {
			synctest.Wait()
			for i, r := range w.redis {
				text, _ := label(t, r, p.s[i])
				require.Equal(t, "waits", text)
			}
			time.Sleep(7 * time.Second)
		}
		cancel()
		require.ErrorIs(t, <-got, context.Canceled)
		time.Sleep(2 * lease / 3) // up to a third is over when it counts as unused
		for i, r := range w.redis {
			text, _ := label(t, r, p.s[i])
			require.Empty(t, text)
		}
		require.NoError(t, l.Unlock(background))
	})
}

func TestLabelGoesSoonAfterASingleUseAndWithTheSession(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.process()
		time.Sleep(lease)
		present := func() (all []string) {
			for i, r := range w.redis {
				if text, _ := label(t, r, p.s[i]); text != "" {
					all = append(all, text)
				}
			}
			return all
		}
		require.NoError(t, p.held().Unlock(background))
		require.NotEmpty(t, present())
		time.Sleep(time.Second)
		require.Empty(t, present(), "one use")

		l := p.held()
		require.NotEmpty(t, present(), "used again")
		require.NoError(t, l.Unlock(background))
		time.Sleep(5 * time.Second)
		require.NotEmpty(t, present(), "used now and then: it stays")
		time.Sleep(2 * lease / 3)
		require.Empty(t, present())

		p.held()
		for _, s := range p.s {
			require.NoError(t, s.Close(background))
		}
		require.Empty(t, present(), "after Close")
	})
}

func TestLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := relocktest.New(t)
		host, err := os.Hostname()
		require.NoError(t, err)

		s := redis.Session()
		require.NoError(t, s.Mutex("a").Lock(background))
		text, _ := label(t, redis, s)
		require.Regexp(t, `^virtual\.test@`+regexp.QuoteMeta(host)+fmt.Sprintf(`:%d$`, os.Getpid()), text)

		long := strings.Repeat("ü", 128)
		s = redis.Session(relock.WithLabel(long))
		require.NoError(t, s.Mutex("b", relock.WithFixedLease(time.Hour)).Lock(background))
		time.Sleep(20 * time.Second)
		text, ttl := label(t, redis, s)
		require.Equal(t, long, text)
		require.Greater(t, ttl, 59*time.Minute, "as long as the longest lease")

		s = redis.Session(relock.WithLabel(""))
		require.NoError(t, s.Mutex("c").Lock(background))
		time.Sleep(time.Minute)
		text, _ = label(t, redis, s)
		require.Empty(t, text)

		for _, c := range []struct{ bad, why string }{
			{strings.Repeat("ü", 129), "it is 258 bytes long, more than 256"},
			{"two\nlines", "it has characters that cannot be printed"},
			{"\xff", "it is not valid UTF-8"},
		} {
			_, err := relock.NewSession(background, redis.Client(), relock.WithLabel(c.bad))
			require.ErrorIs(t, err, relock.ErrOption)
			require.ErrorContains(t, err, "WithLabel("+fmt.Sprintf("%.40q", c.bad)+"): "+c.why)
		}
	})
}
