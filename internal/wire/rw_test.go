package wire

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The owner of the write hold may read, and go on reading. Redisson is told when it stops writing.
func TestRWDowngradeOnTheWire(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		w, a := r.writer(1), r.reader(2)
		r.take(w)
		r.under(a, w)
		r.held(w, a)
		require.Equal(t, "taken", joins(2, 3)(r), "nobody may join while it writes")
		r.end(w)
		r.held(a)
		require.Equal(t, "reads", tries(Read, 3)(r))
		require.Equal(t, "other", joins(2, 4)(r))
		r.end(r.reader(3), a)
		r.mustKeys()

		r.take(w)
		r.under(a, w)
		r.end(a) // the other way round
		r.held(w)
		r.mustNear("the lock", r.pttl("a"), w.Length)
		r.end(w)
		r.mustKeys()

		next := r.listen(rwChannel)
		r.take(w)
		r.under(a, w)
		r.end(w)
		r.mustMessages(next, rwChannel, rwChannel+" 1", rwChannel+" 00")
		r.end(a)
		r.mustMessages(next, rwChannel, rwChannel+" 0")
	})
}

func TestRWDowngradeLetsReadersIn(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		w, own, next := r.writer(1), r.reader(2), r.writer(5)
		r.take(w)
		r.under(own, w)
		r.queues(r.reader(3), next, r.reader(4))
		r.end(w)
		r.held(own, r.reader(3), r.reader(4))
		r.mustNear("the lock", r.pttl("a"), own.Length)
		r.mustQueue(writeQueue, next)
		r.end(own, r.reader(3), r.reader(4))
		r.held(next)
	})
}

// Nothing shortens the expiry: neither the renewal of a writer whose owner has a longer lease as a reader, nor the
// release of that reader.
func TestRWLockLivesForItsLongestLease(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		long, short, w := r.reader(1), r.reader(2), r.writer(3)
		long.Length, short.Length = time.Hour, 20*time.Second
		r.take(w)
		r.mustNear("written", r.pttl("a"), w.Length)
		for what, call := range map[string]func(){
			"read under it": func() {}, "asked again": func() { r.take(w) }, "renewed": func() { r.renews(w) },
		} {
			r.under(long, w)
			call()
			r.mustNear(what, r.pttl("a"), time.Hour)
		}
		r.end(w)
		r.take(short)
		r.renews(short)
		r.end(long)
		r.mustNear("read beside one that has left", r.pttl("a"), time.Hour)
	})
}

// Readers of Redisson live as long as the hash.
func TestRWReadersOfRedisson(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		a, w := r.reader(1), r.writer(2)
		redissonReads(r)
		r.refused(w, 50*time.Second, time.Minute)
		r.end(w)
		r.take(a)
		r.must("DEL", "{a}:"+redissonID+":rwlock_timeout:1")
		r.renews(a)
		r.end(a)
		require.Equal(t, map[string]string{"mode": "read", redissonID: "1"}, r.hash("a"))
		r.refused(w, 50*time.Second, time.Minute)
	})
}

// A writer waits for the readers of one phase, and a reader for one writer.
func TestRWReadersAndWritersTakeTurns(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		next := r.present("s")
		read := r.reader
		w1, w2, w3 := r.writer(1), r.writer(2), r.writer(3)
		r.take(w1)
		r.queues(read(4), w2, read(5), w3, read(6))
		r.mustQueue(writeQueue, w2, w3)
		r.mustQueue(readQueue, read(4), read(5), read(6))
		r.end(w1)
		r.held(read(4), read(5), read(6))
		for _, key := range []string{"a", timeoutOf("s:5")} {
			r.mustNear("the grant of "+key, r.pttl(key), GrantMost)
		}
		require.Equal(t, "taken", tries(Read, 9)(r))
		r.queues(read(7))
		require.Equal(t, "taken", joins(4, 8)(r))
		r.end(read(4), read(6))
		r.held(read(5))
		r.end(read(5))
		r.held(w2)
		second := r.lastToken()
		r.queues(read(10))
		r.end(w2)
		r.held(read(7), read(10))
		r.mustQueue(writeQueue, w3)
		r.end(read(7), read(10))
		r.held(w3)
		third := r.lastToken()
		r.end(w3)
		r.mustKeys()
		r.mustMessages(next, sessionChannel, granted(read(4), 2, ""), granted(read(5), 2, ""), granted(read(6), 2, ""),
			granted(w2, second, "+"), granted(read(7), 2, ""), granted(read(10), 2, ""), granted(w3, third, ""))
	})
}

// A writer that gives up, or that is away, stops no readers.
func TestRWWriterThatIsGoneStopsNobody(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.present("s")
		a, b, w := r.reader(1), r.reader(2), of("x", r.writer(3))
		for what, c := range map[string]struct {
			call func()
			read []*Ref
		}{
			"it gives up":              {func() { r.end(w) }, []*Ref{a, b}},
			"a reader polls":           {func() { require.True(t, r.polls(b).Granted) }, []*Ref{a, b}},
			"another reader comes":     {func() { r.take(r.reader(4)) }, []*Ref{a, b, r.reader(4)}},
			"the last reader releases": {func() { r.end(a) }, []*Ref{b}},
		} {
			r.must("FLUSHALL")
			r.take(a)
			r.queues(w)
			r.must("ZADD", readQueue, "5", b.ID)
			c.call()
			r.held(c.read...)
			require.Zero(t, r.int("EXISTS", writeQueue, readQueue), what)
		}
	})
}

// A reader that is away is passed and removed. The others have their turn.
func TestRWAbsentReaderIsPassed(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		w, next, gone := r.writer(1), r.writer(2), of("x", r.reader(3))
		r.take(w)
		r.queues(gone, next)
		r.end(w)
		r.held(next)
		require.Zero(t, r.int("EXISTS", readQueue))
	})
}

// After a lease that has run out readers come first.
func TestRWReadersComeFirstAfterALeaseThatHasRunOut(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.take(of("h", r.writer(1)))
		w, a := r.writer(2), r.reader(3)
		r.queues(w, a)
		r.must("DEL", "a")
		require.False(t, r.polls(w).Granted)
		r.held(a)
		r.mustQueue(writeQueue, w)
		r.end(a)
		r.held(w)
	})
}

// One script lets in a thousand readers. The others come with the next phase if a writer waits, else by a poll.
func TestRWCrowdComesInByThousands(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		w, other := r.writer(1), r.writer(2)
		const crowd = 1200
		for _, waits := range []bool{false, true} {
			r.must("FLUSHALL")
			r.take(w)
			if waits {
				r.queues(other)
			}
			for n := range crowd {
				r.must("ZADD", readQueue, fmt.Sprint(n+1), r.reader(1000+n).ID)
			}
			r.end(w)
			require.EqualValues(t, 1001, r.int("HLEN", "a"))
			late := r.reader(1000 + crowd - 1)
			require.Equal(t, !waits, r.polls(late).Granted)
			if !waits {
				require.EqualValues(t, 1+crowd, r.int("HLEN", "a"))
				continue
			}
			var in []*Ref
			for n := range 1000 {
				in = append(in, r.reader(1000+n))
			}
			_, errs := r.ReleaseAll(ctx0, in) // soon, before their grants run out
			require.NoError(t, errors.Join(errs...))
			r.held(other)
			r.end(other)
			require.EqualValues(t, 1+crowd-1000, r.int("HLEN", "a"))
		}
	})
}

// A reader rests, and its time is over when the last of the others releases: the lock goes to the next writer.
func TestRWRestThatIsOverDoesNotSwallowTheHandOver(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		a, b, w := r.reader(1), r.reader(2), r.writer(3)
		r.take(a)
		r.take(b)
		a.Rest = time.Minute
		r.end(a)
		r.queues(w)
		r.must("SET", "relock_fence:{a}", "0 readers 1") // its time is over
		r.end(b)
		r.held(w)
	})
}

// After readers whose lease has run out a writer comes next, also if no writer has had the lock yet.
func TestWriterComesAfterReadersWhoseLeaseHasRunOut(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		for _, before := range []bool{false, true} {
			r.must("FLUSHALL")
			first, writer, reader := r.reader(1), r.lease(Write, 2), r.reader(3)
			if before {
				l := r.lease(Write, 4)
				r.take(l)
				r.end(l)
			}
			r.take(first)
			r.queues(writer)
			r.queues(reader)
			r.must("DEL", "a", first.Keys.timeout(first.ID))
			require.False(t, r.polls(reader).Granted, "the readers' turn again")
			require.True(t, r.polls(writer).Granted)
		}
	})
}
