package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A writer waits for the readers of one phase, and a reader for one writer.
func TestRWReadersAndWritersTakeTurns(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		next := r.present()
		read := r.reader
		w1, w2, w3 := r.writer(1), r.writer(2), r.writer(3)
		r.take(w1)
		r.queues(read(4), w2, read(5), w3, read(6))
		r.mustQueue(w2, w3, read(4), read(5), read(6))
		r.end(w1)
		r.held(read(4), read(5), read(6))
		for _, key := range []string{"a", read(5).Keys.timeout(read(5).ID)} {
			r.mustNear("the claim on "+key, r.pttl(key), GrantMost)
		}
		r.reads(read(9), 0) // who does not queue
		r.queues(read(7))
		require.Zero(t, r.join(read(4), read(8), true))
		r.end(read(4), read(6))
		r.held(read(5))
		r.end(read(5))
		r.held(w2)
		r.queues(read(10))
		r.end(w2)
		r.held(read(7), read(8), read(10))
		r.mustQueue(w3)
		r.end(read(7), read(10), read(8))
		r.held(w3)
		token := r.int("GET", fenceKey)
		r.end(w3)
		r.held()
		r.mustKeys()
		for _, n := range []int{4, 5, 6, 0, 7, 8, 10} {
			if got := next(); n > 0 { // 0: to w2
				require.Equal(t, granted(read(n), int64(readAlone)), got)
			}
		}
		r.mustMessages(next, sessionChannel, granted(w3, token))
	})
}

// A writer that gives up, is gone, or does not look after itself any more stops no readers.
func TestRWAnAbsentWriterStopsNobody(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.present(PrefixSession + session("f"))
		a, b, w := r.reader(1), r.reader(2), of("f", r.writer(3))
		restart := func() {
			r.must("FLUSHALL")
			r.reads(a, ReadJoin)
			r.queues(w, b)
		}
		restart()
		r.end(w)
		r.held(a, b)

		restart()
		frozen(r) // its connection is there
		r.looksFor(int64(ReadJoin), b)
		r.held(a, b)
		r.mustQueue(w)   // stands back
		r.looksFor(0, w) // it is back
		r.queues(r.reader(4))
		r.end(a, b)
		r.held(w)

		restart()
		dead := of("x", r.writer(5))
		r.must("DEL", rwQueue)
		r.queues(dead)
		r.reads(r.reader(4), ReadJoin)
		r.mustQueue(dead) // it may come back
		r.end(a, r.reader(4))
		r.held()
		r.take(w)
		r.mustQueue(dead)
	})
}

// A reader whose session is gone stands back; the others have their turn.
func TestRWAnAbsentReaderStandsBack(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.present()
		w, next, gone := r.writer(1), r.writer(2), of("x", r.reader(3))
		r.take(w)
		r.queues(gone, next)
		r.end(w)
		r.held(next)
		r.mustQueue(gone)
		r.looksFor(0, gone) // it hears nothing, but comes with the next readers
		r.queues(r.reader(4))
		r.end(next)
		r.held(gone, r.reader(4))
		r.end(gone, r.reader(4))

		// Before the writers, as one whom the last phase has left over. (The writer had the lock
		// and its place, or, by a look, the place and not the lock.)
		leftOver := func() { r.must("ZADD", rwQueue, "2", gone.ID) }
		leftOver()
		require.Contains(t, asks(Write, 5)(r), "granted")
		r.held(r.writer(5))
		r.mustQueue(gone)
		r.queues(r.writer(6))
		r.must("DEL", "a")
		leftOver()
		reply := r.look(r.writer(6))[0]
		r.held(r.writer(6))
		r.mustQueue(gone)
		require.Equal(t, r.int("GET", fenceKey), reply)
	})
}

// One script lets in a hundred. The next hundred come before the writers, and who comes later
// does not.
func TestRWACrowdComesInByHundreds(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		next := r.present()
		w, other := r.writer(1), r.writer(2)
		r.take(w)
		r.queues(other)
		const crowd = 250
		for n := range crowd {
			r.queues(r.reader(1000 + n))
		}
		r.end(w)
		for at := 100; at < crowd; at += 100 {
			require.EqualValues(t, 1+at, r.int("HLEN", "a"))
			first := r.reader(1000 + at)
			for want := sessionChannel + " look " + first.ID; next() != want; {
			}
			r.queues(r.reader(5000 + at))
			r.looksFor(int64(readAlone), first)
		}
		require.EqualValues(t, 1+crowd, r.int("HLEN", "a"))
		r.mustQueue(other, r.reader(5100), r.reader(5200))
		for n := range crowd {
			r.end(r.reader(1000 + n))
		}
		r.held(other)
	})
}

// While a reader of the crowd that is left over has not looked, the last of those that were let in
// may leave: then the others come before the writer all the same.
func TestRWTheRestOfCrowdsIsNotForgotten(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.present()
		w, other := r.writer(1), r.writer(2)
		r.take(w)
		r.queues(other)
		for n := range 150 {
			r.queues(r.reader(1000 + n))
		}
		r.end(w)
		for n := range 100 {
			r.end(r.reader(1000 + n))
		}
		require.EqualValues(t, 51, r.int("HLEN", "a"))
		r.mustQueue(other)
	})
}

// Redisson's waiters listen to the channel of the lock: it is left to them for a while, and not
// again for some releases. lua/lib/turns.lua has the rule.
func TestRWRedissonHasItsTurn(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.goesOn() // its turn ends
		next := r.present(rwChannel)
		w, a, b := r.writer(1), r.reader(2), r.writer(3)
		r.take(w)
		r.queues(a, b)
		r.end(w)
		r.held()
		for _, want := range []string{rwChannel + " 1", rwChannel + " 00", sessionChannel + " look " + a.ID} {
			require.Equal(t, want, next())
		}
		patient(r)
		r.looksFor(Theirs, a)
		r.looksFor(0, b)
		r.queues(r.reader(4), r.writer(5))
		r.held()
		r.yields("left", -time.Second) // they have not used it
		r.looksFor(0, b)
		r.held(a) // it was the readers' turn, of those that queued when the writer left
		r.mustQueue(b, r.writer(5), r.reader(4))
		r.end(a)
		r.held(b) // not left to Redisson again so soon
		r.end(b)
		r.held(r.reader(4))

		// A writer of Redisson has come: from then on the first of the queue listens.
		r.must("FLUSHALL")
		redissonWrites(r)
		patient(r)
		r.queues(a, b)
		require.Contains(t, r.text("GET", yieldKey), "theirs ", "its turn is not noted")
		r.looksFor(Theirs, b)
		r.looksFor(0, a)
		r.must("DEL", "a")
		r.looksFor(0, a)
		r.held(b)
	})
}
