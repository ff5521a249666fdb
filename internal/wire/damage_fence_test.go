package wire

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// kindsWithTokens have fencing tokens.
var kindsWithTokens = []Kind{Plain, Fair, Write, Semaphore}

// foreign is what somebody else may have written to the fence key.
var foreign = []string{
	"", "0", "-5", "5", "5 x", "1.5", "1e15", "12abc", " 12 x", "text", "\x00\xff", "5\nx y",
	"readers", "12 readers 5", "12 readers 99999999999999", "12 - note", "1794000000000000",
	"9007199254740991", "9007199254740990 x", "9007199254740992", "1000000000000000000000000000000",
}

// Tokens go on growing, below 2^53, whatever somebody writes to the fence key.
func TestTokensGrowWhateverTheFenceKeyHolds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := 0
	for _, k := range kindsWithTokens {
		for _, value := range foreign {
			n++
			l, what := r.lease(k, n), fmt.Sprintf("%v %.20q", k, value)
			last := r.take(l)
			r.end(l)
			time.Sleep(3 * time.Millisecond) // the clock passes the token
			r.must("SET", fenceKey, value)
			for range 6 {
				n++
				l := r.lease(k, n)
				token := r.take(l)
				require.Greater(t, token, last, what)
				require.Less(t, token, int64(1)<<53, what)
				last = token
				r.end(l)
			}
			r.must("FLUSHALL")
		}
	}
}

// A call that is sent again, and a poll that finds a grant, do not return what somebody else has
// written.
func TestNobodyElsesNumberIsAToken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.present("s", "o")
	n := 0
	for _, k := range kindsWithTokens {
		for _, value := range foreign {
			what := fmt.Sprintf("%v %.20q", k, value)
			n += 10
			a, b := r.lease(k, n), r.lease(k, n+1)
			a.Permits, b.Permits = 1, 1
			last := r.take(a)
			r.queues(b)
			r.end(a)
			time.Sleep(3 * time.Millisecond)
			r.must("SET", fenceKey, value)
			found := r.polls(b)
			require.True(t, found.Granted, what)
			require.Greater(t, found.Token, last, what)

			time.Sleep(3 * time.Millisecond)
			r.must("SET", fenceKey, value)
			again := r.tries(b)
			require.True(t, again.Granted, what)
			require.Greater(t, again.Token, last, what)
			r.must("FLUSHALL")
		}
	}
}

// The last token is remembered for a minute longer than the lease, however often that is renewed.
func TestTokenIsRememberedForAMinuteAfterTheLease(t *testing.T) {
	t.Parallel()
	onRigs(t, func(t *testing.T, r *rig) {
		for _, k := range kindsWithTokens {
			r.must("FLUSHALL")
			l := r.lease(k, 1)
			l.Length = time.Second
			r.take(l)
			for range 5 { // the watchdog renews while time passes, here all at once
				r.must("PEXPIRE", fenceKey, "61000")
				r.renews(l)
				require.GreaterOrEqual(t, r.pttl(fenceKey), 60*time.Second+900*time.Millisecond)
				r.must("PEXPIRE", fenceKey, "30000")
				r.renews(l)
				require.GreaterOrEqual(t, r.pttl(fenceKey), 60*time.Second+900*time.Millisecond)
			}
		}
	})
}

// A token ahead of the clock, which was set back, is remembered until the clock has passed it:
// readers do not shorten that.
func TestReadersDoNotShortenTheMemoryOfATokenAhead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ahead := (time.Now().UnixMilli() + 600_000) * 1024
	r.must("SET", fenceKey, fmt.Sprintf("%d %s", ahead, id("s:1")+":write"), "PX", "690000")
	w := r.writer(2)
	require.Greater(t, r.take(w), ahead)
	r.end(w)
	for _, rest := range []time.Duration{0, time.Millisecond} {
		reader := r.reader(3)
		reader.Rest = rest
		r.take(reader)
		r.end(reader)
		require.Greater(t, r.pttl(fenceKey), 600*time.Second)
	}
}

// Nor do they prolong it with each of them that leaves with WithMinHold.
func TestReadersDoNotPileUpTheMemoryOfTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.take(r.reader(1))
	for i := range 10 {
		reader := r.reader(2 + i)
		reader.Rest = 20 * time.Millisecond
		r.take(reader)
		r.end(reader)
	}
	require.Less(t, r.pttl(fenceKey), 2*time.Minute)
}

// A reader's WithMinHold lasts although a writer polls while a reader of Redisson has the lock too.
func TestMinHoldOfAReaderBesideRedissons(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.present("s", "o")
	first, second := r.reader(1), r.reader(2)
	r.take(first)
	r.take(second)
	r.must("HSET", "a", redissonID, "1")
	r.must("SET", "{a}:"+redissonID+":rwlock_timeout:1", "1", "PX", "30000")
	first.Rest = 20 * time.Second
	r.end(first)
	w := of("o", r.writer(3))
	r.queues(w)
	r.polls(w)
	r.must("HDEL", "a", redissonID)
	r.must("DEL", "{a}:"+redissonID+":rwlock_timeout:1")
	r.end(second)
	require.False(t, r.polls(w).Granted)
}

// A minimum that is over does not come back when the clock is set back.
func TestMinHoldOfEarlierReadersIsOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.present("s", "o")
	rests := time.Now().UnixMilli() + 600_000 // before the clock was set back it was over
	r.must("SET", fenceKey, fmt.Sprintf("%d readers %d", (rests-1000)*1024, rests), "PX", "660000")
	reader := r.reader(1)
	r.take(reader)
	r.end(reader)
	require.True(t, r.asks(of("o", r.writer(2))).Granted)
}

// No number that somebody writes to the fence key keeps the lock taken when the last reader leaves.
func TestForeignMinHoldOfReaders(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.present("s", "o")
	for i, ends := range []string{"99999999999999", "99999999999999999999", "9007199254740991"} {
		value := "5 readers " + ends
		reader := r.reader(10 * i)
		r.take(reader)
		r.must("SET", fenceKey, value)
		r.end(reader)
		writer := of("o", r.writer(10*i+1))
		require.True(t, r.asks(writer).Granted, value)
		r.end(writer)
	}
}
