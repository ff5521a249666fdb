package virtual_test

import (
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

// A session has its label from its start until Close, whether it uses locks or not, and until its leases end if it
// dies. Inspect tells it of holders.
func TestInspectTellsTheLabelsOfHolders(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		const text = "worker 7"
		other, dies, closes := w.process(), w.process(relock.WithLabel(text)), w.process(relock.WithLabel(text))
		present := func(p *process, want string, least time.Duration) {
			t.Helper()
			for i, r := range w.redis {
				text, ttl := label(t, r, p.s[i])
				require.Equal(t, want, text)
				require.GreaterOrEqual(t, ttl, least, "the lock outlives its label")
			}
		}
		l := dies.held()
		for range 30 {
			for i := range w.redis {
				for _, name := range w.typ.names {
					st, err := other.s[i].Inspect(background, name)
					require.NoError(t, err)
					require.Len(t, st.Holders, 1)
					require.Equal(t, text, st.Holders[0].Label)
				}
			}
			present(dies, text, w.ttl()-time.Millisecond)
			present(closes, text, 0)
			time.Sleep(7 * time.Second)
		}
		dies.partition() // as if it were dead
		lost(t, l)
		time.Sleep(lease)
		present(dies, "", 0)
		closes.held()
		require.NoError(t, closes.closeAll(time.Minute))
		present(closes, "", 0)
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
