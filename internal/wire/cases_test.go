package wire

import (
	"slices"
	"time"
)

// scriptCases are calls in which nobody of Redisson listens.
func scriptCases() []scriptCase {
	return slices.Concat(adminCases(), mutexCases(), writerCases(), readerCases(), permitCases())
}

func adminCases() []scriptCase {
	damagedFence := all(has(Plain, 1), del(fenceKey), runs("HSET", fenceKey, "no", "token"))
	return []scriptCase{
		{"inspect", has(Plain, 1), inspects, "waiters 0, fields 1", same},
		{"inspect what others queue for", all(has(Fair, 1), wants(Fair, 2), wants(Fair, 3), turnSince(plainQueue, 0)),
			inspects, "waiters 2, fields 1", same},
		{"inspect a semaphore", all(full, wants(Semaphore, 3), over(1)), inspects, "waiters 1, fields 1", same},
		{"inspect a semaphore whose leases have ended", all(has(Semaphore, 1), over(1)), inspects, "waiters 0, fields 0", same},

		{"force", has(Plain, 1), forces, "opened true", "opened false"},
		{"force a holder that was named", has(Plain, 1), forcesFrom(1), "opened true", "opened false"},
		{"force another holder", has(Plain, 2), forcesFrom(1), "other", same},
		{"force what others queue for", all(has(Fair, 1), wants(Fair, 2)), forces, "opened true", once},
		{"force to the next, who was not named", all(has(Fair, 1), wants(Fair, 2)), forcesFrom(1), "opened true", "other"},
		{"force a writer that reads", all(has(Write, 1), under(2, 1), wants(Write, 3), wants(Read, 4)),
			forces, "opened true", "opened false"},
		{"force readers that were named, of whom one has gone", has(Read, 2), forcesFrom(1, 2), "opened true", "opened false"},
		{"force beside a reader that was not named", all(has(Read, 1), has(Read, 2)), forcesFrom(1), "other", same},
		{"force a semaphore", full, forces, "opened true", "opened false"},
		{"force a permit to the next", all(full, wants(Semaphore, 3)), forcesFrom(2, 7), "opened true", "opened false"},
		{"force what is not a lock", runs("SET", "a", "x"), forces, "not a lock", same},

		{"hand off", has(Plain, 1), handsOff(1, 2), "granted", same},
		{"hand off what others queue for", all(has(Plain, 1), wants(Plain, 3)), handsOff(1, 2), "granted", same},
		{"hand off what is gone", has(Plain, 3), handsOff(1, 2), "gone", same},
		{"hand off to a ticket", has(Plain, 1), handsTicket(1, 2), "at", same},
		{"adopt a ticket", all(has(Plain, 1), does(handsTicket(1, 2))), handsOff(2, 3), "granted", same},
		{"hand off again, with little left of the lease and without a token",
			all(has(Plain, 1), does(handsOff(1, 2)), del(fenceKey), runs("PEXPIRE", "a", "5000")), handsOff(1, 2), "granted", same},

		{"raise", has(Plain, 1), raises(1, 1<<51), "held true", same},
		{"raise to a smaller token", has(Plain, 1), raises(1, 1024), "held true", same},
		{"raise what is not a token", all(has(Plain, 1), runs("SET", fenceKey, "rubbish")), raises(1, 1024), "held true", same},
		{"raise what is of another type", damagedFence, raises(1, 1024), "relock: not a lock: relock's own key", same},
		{"raise where another holds", has(Plain, 2), raises(1, 1<<51), "held false", same},
		{"raise where the key is not a lock", runs("SET", "a", "text"), raises(1, 1<<51), "held false", same},

		{"renew", has(Plain, 1), renews(Plain, 1), "kept", same},
		{"renew a hold whose token is about to be forgotten",
			all(has(Plain, 1), runs("PEXPIRE", fenceKey, "1500")), renews(Plain, 1), "kept", same},
		{"renew once what is not renewed again", all(has(Plain, 1)), func(r *rig) string {
			l := r.lease(Plain, 1)
			l.Renewed = false
			r.renews(l)
			return "kept"
		}, "kept", same},
		{"renew what is gone", has(Plain, 2), renews(Plain, 1), "gone", same},
		{"renew a write hold", all(has(Write, 1), runs("PEXPIRE", "a", "20000")), renews(Write, 1), "kept", same},
		{"renew a write hold whose key lives longer",
			all(has(Write, 1), runs("PEXPIRE", "a", "600000")), renews(Write, 1), "kept", same},
		{"renew a write hold that is gone", has(Write, 2), renews(Write, 1), "gone", same},
		{"renew a read hold", all(has(Read, 1), runs("PEXPIRE", "a", "20000")), renews(Read, 1), "kept", same},
		{"renew a read hold that is gone", has(Read, 2), renews(Read, 1), "gone", same},
		{"renew a read hold that has ended",
			all(has(Read, 1), has(Read, 2), del(timeoutOf("s:1"))), renews(Read, 1), "gone", same},
		{"renew a permit", all(has(Semaphore, 1), runs("PEXPIRE", "a", "20000"), runs("PEXPIRE", fenceKey, "1500")),
			renews(Semaphore, 1), "kept", same},
		{"renew a permit that is gone", has(Semaphore, 2), renews(Semaphore, 1), "gone", same},
		{"renew a permit whose lease has ended", all(full, over(1)), renews(Semaphore, 1), "kept", same},
	}
}

func mutexCases() []scriptCase {
	const k = Fair
	queued := all(has(k, 1), wants(k, 2), wants(k, 3))
	granted := all(queued, does(ends(k, 1))) // to 2
	lapsed := all(hasOf("h", k, 1), func(r *rig) { r.queues(of("h", r.lease(k, 2))) }, wants(k, 3), del("a"))
	return []scriptCase{
		{"acquire", nothing, tries(k, 1), "granted", same},
		{"acquire a held lock", has(k, 2), tries(k, 1), "taken", same},
		{"acquire again, with little left of the lease", all(has(k, 1), runs("PEXPIRE", "a", "5000")), tries(k, 1), "granted", same},
		{"acquire again without a token", all(has(k, 1), del(fenceKey)), tries(k, 1), "granted", same},
		{"acquire what was granted", granted, tries(k, 2), "granted", same},
		{"acquire what rests", all(has(k, 1), does(rests(k, 1))), tries(k, 1), "taken", same},
		{"queue", has(k, 2), asks(k, 1), "taken", once},
		{"queue behind another", all(has(k, 2), wants(k, 3)), asks(k, 1), "taken", once},
		{"queue while Redisson has the lock", all(redissonHas, turnSince(plainQueue, 0)), asks(k, 1), "theirs", once},
		{"queue for a free lock behind another", all(queued, del("a")), asks(k, 4), "taken", once},
		{"queue for a free lock behind the absent", all(has(k, 1), absent(k, 2), del("a")), asks(k, 3), "granted", once},
		{"acquire a free lock that another waits for", all(queued, del("a")), tries(k, 4), "taken", same},
		{"acquire a free lock that the absent wait for", all(has(k, 1), absent(k, 2), del("a")), tries(k, 3), "granted", same},
		{"acquire after a lease that has run out", lapsed, tries(k, 4), "taken", same},

		{"poll", queued, polls(k, 2), "taken", same},
		{"poll for two", queued, polls(k, 3, 2), "taken", same},
		{"poll without an entry", has(k, 1), polls(k, 2), "gone", same},
		{"poll for a grant whose message was lost", granted, polls(k, 2), "granted", same},
		{"poll for a grant whose token was lost", all(granted, del(fenceKey)), polls(k, 2), "granted", same},
		{"poll for a grant whose token has another type",
			all(granted, del(fenceKey), runs("HSET", fenceKey, "no", "token")), polls(k, 2), "gone", same},
		{"poll for a free lock", all(queued, del("a")), polls(k, 2), "granted", same},
		{"poll for a free lock behind another", all(queued, del("a")), polls(k, 3), "taken", same},
		{"poll for a free lock behind many of the absent",
			all(queued, dead(plainQueue, 250, ""), del("a")), polls(k, 3), "taken", same},
		{"poll after a lease that has run out", lapsed, polls(k, 3), "granted", same},
		{"poll while Redisson has the lock",
			all(queued, turnSince(plainQueue, 0), del("a"), redissonHas), polls(k, 2, 3), "theirs", same},
		{"poll for what is not a lock", all(queued, del("a"), runs("SET", "a", "x")), polls(k, 2), "gone", same},

		{"release", has(k, 1), ends(k, 1), "told 0", "told -1"},
		{"release to the next", queued, ends(k, 1), "told 0", "told -1"},
		{"release to the last", all(has(k, 1), wants(k, 2)), ends(k, 1), "told 0", "told -1"},
		{"release to the next at the end of a block of tokens",
			all(queued, runs("SET", fenceKey, "1040")), ends(k, 1), "told 0", "told -1"},
		{"release past the absent", all(has(k, 1), absent(k, 2), wants(k, 3)), ends(k, 1), "told 0", "told -1"},
		{"release to the absent alone", all(has(k, 1), absent(k, 2)), ends(k, 1), "told 0", "told -1"},
		{"release what is gone", has(k, 2), ends(k, 1), "told -1", same},
		{"release beside a token of another type",
			all(queued, del(fenceKey), runs("HSET", fenceKey, "no", "token")), ends(k, 1), "damaged", "told -1"},
		{"release and rest", has(k, 1), rests(k, 1), "told 0", "told -1"},
		{"release and rest before another", queued, rests(k, 1), "told 0", "told -1"},
		{"leave the queue", queued, ends(k, 2), "told 0", "told -1"},
		{"leave the queue from behind", queued, ends(k, 3), "told 0", "told -1"},
	}
}

func writerCases() []scriptCase {
	const k = Write
	queued := all(has(k, 1), wants(k, 2), wants(k, 3))
	granted := all(queued, does(ends(k, 1))) // to 2
	readers := all(has(k, 1), wants(Read, 2), wants(Read, 3))
	read := all(has(Read, 1), wants(k, 2))
	return []scriptCase{
		{"write", nothing, tries(k, 1), "granted", same},
		{"write what was free a moment ago", all(has(k, 1), does(ends(k, 1))), tries(k, 2), "granted", same},
		{"write a held lock", has(k, 2), tries(k, 1), "taken", same},
		{"write a lock that is read", has(Read, 2), tries(k, 1), "taken", same},
		{"write again, with little left of the lease", all(has(k, 1), runs("PEXPIRE", "a", "5000")), tries(k, 1), "granted", same},
		{"write again without a token", all(has(k, 1), del(fenceKey)), tries(k, 1), "granted", same},
		{"queue to write", has(k, 2), asks(k, 1), "taken", once},
		{"queue to write while Redisson writes", all(redissonWrites, turnSince(writeQueue, 0)), asks(k, 1), "theirs", once},
		{"queue to write a free lock", all(has(k, 1), does(ends(k, 1))), asks(k, 2), "granted", once},
		{"write a free lock that another waits for", all(queued, del("a")), tries(k, 4), "taken", same},
		{"write a free lock that readers wait for", all(readers, del("a")), tries(k, 4), "taken", same},
		{"write a free lock that the absent wait for",
			all(has(k, 1), absent(k, 2), absent(Read, 3), del("a")), tries(k, 4), "granted", same},
		{"write after a lease that has run out",
			all(hasOf("h", k, 1), func(r *rig) { r.queues(of("h", r.lease(k, 2)), of("h", r.reader(3))) }, wants(k, 4), del("a")),
			tries(k, 5), "taken", same},

		{"poll to write", queued, polls(k, 2), "taken", same},
		{"poll to write while others read", read, polls(k, 2), "taken", same},
		{"poll to write without an entry", has(k, 1), polls(k, 2), "gone", same},
		{"poll to write for a grant whose message was lost", granted, polls(k, 2), "granted", same},
		{"poll to write for a grant whose token was lost", all(granted, del(fenceKey)), polls(k, 2), "granted", same},
		{"poll to write a free lock", all(queued, del("a")), polls(k, 2), "granted", same},
		{"poll to write a free lock behind another", all(queued, del("a")), polls(k, 3), "taken", same},
		{"poll to write a free lock that readers wait for", all(readers, wants(k, 4), del("a")), polls(k, 4), "taken", same},
		{"poll to write while Redisson writes", all(queued, del("a"), redissonWrites), polls(k, 2), "theirs", same},
		{"poll to write while Redisson reads", all(queued, del("a"), redissonReads), polls(k, 2), "theirs", same},
		{"poll to write what is not a lock", all(queued, del("a"), runs("HSET", "a", "b", "c")), polls(k, 2), "gone", same},

		{"release a write hold", has(k, 1), ends(k, 1), "told 0", "told -1"},
		{"release a write hold to the next", queued, ends(k, 1), "told 0", "told -1"},
		{"release a write hold to readers", readers, ends(k, 1), "told 0", "told -1"},
		{"release a write hold to readers before a writer", all(readers, wants(k, 4)), ends(k, 1), "told 0", "told -1"},
		{"release a write hold to the absent alone", all(has(k, 1), absent(Read, 2), absent(k, 3)), ends(k, 1), "told 0", "told -1"},
		{"release a write hold and read on", all(has(k, 1), under(2, 1)), ends(k, 1), "told 0", "told -1"},
		{"release a write hold, read on, and let others in",
			all(has(k, 1), under(2, 1), wants(Read, 3)), ends(k, 1), "told 0", "told -1"},
		{"release a write hold and rest", all(has(k, 1), wants(k, 2), wants(Read, 3)), rests(k, 1), "told 0", "told -1"},
		{"release a write hold that is gone", has(k, 2), ends(k, 1), "told -1", same},
		{"release a write hold beside a queue of another type",
			all(has(k, 1), runs("SET", readQueue, "x")), ends(k, 1), "damaged", "told -1"},
		{"leave the queue of writers", queued, ends(k, 2), "told 0", "told -1"},
		{"leave the queue of writers from behind", queued, ends(k, 3), "told 0", "told -1"},
		{"leave the queue of writers to readers", all(read, wants(Read, 3)), ends(k, 2), "told 0", "told -1"},
	}
}

func readerCases() []scriptCase {
	const k = Read
	queued := all(has(Write, 1), wants(k, 2), wants(k, 3))
	granted := all(queued, does(ends(Write, 1))) // to both
	behind := all(has(k, 1), wants(Write, 2))    // a writer waits
	return []scriptCase{
		{"read", nothing, tries(k, 1), "reads", same},
		{"read what was written a moment ago", all(has(Write, 2), does(ends(Write, 2))), tries(k, 1), "reads", same},
		{"read beside a reader", has(k, 2), tries(k, 1), "reads", same},
		{"read a written lock", has(Write, 2), tries(k, 1), "taken", same},
		{"read while a writer waits", behind, tries(k, 3), "taken", same},
		{"read again while a writer waits", behind, tries(k, 1), "reads alone", same},
		{"read while an absent writer waits", all(has(k, 1), absent(Write, 2)), tries(k, 3), "reads", same},
		{"read under one's own write hold", has(Write, 1), readsUnder(2, 1), "reads", same},
		{"read under a write hold that is not there", has(Write, 1), readsUnder(2, 3), "taken", same},
		{"read a free lock that a reader waits for", all(queued, del("a")), tries(k, 4), "reads", same},
		{"read a free lock that a writer waits for", all(behind, del("a")), tries(k, 3), "taken", same},
		{"queue to read", has(Write, 1), asks(k, 2), "taken", once},
		{"queue to read behind a writer", behind, asks(k, 3), "taken", once},
		{"queue to read while Redisson writes", all(redissonWrites, turnSince(writeQueue, 0)), asks(k, 2), "theirs", once},
		{"join", has(k, 1), joins(1, 2), "other", same},
		{"join while a writer waits", behind, joins(1, 3), "taken", same},
		{"join what is gone", has(k, 1), joins(2, 3), "other is gone", same},

		{"poll to read", queued, polls(k, 2), "taken", same},
		{"poll to read without an entry", has(Write, 1), polls(k, 2), "gone", same},
		{"poll to read for a grant whose message was lost", granted, polls(k, 2), "reads", same},
		{"poll to read a free lock", all(queued, wants(Write, 4), del("a")), polls(k, 2), "reads alone", same},
		{"poll to read behind a writer that is gone",
			all(behind, wants(k, 3), does(func(r *rig) string { r.must("DEL", writeQueue); return "" })), polls(k, 3), "reads", same},
		{"poll to read behind an absent writer",
			all(behind, wants(k, 3), del(writeQueue), absent(Write, 4)), polls(k, 3), "reads", same},
		{"poll to read while Redisson writes", all(queued, del("a"), redissonWrites), polls(k, 2), "theirs", same},
		{"poll to read what is not a lock", all(queued, del("a"), runs("SET", "a", "x")), polls(k, 2), "gone", same},

		{"release a read hold", has(k, 1), ends(k, 1), "told 0", "told -1"},
		{"release one of two read holds", all(has(k, 1), has(k, 2)), ends(k, 1), "told 0", "told -1"},
		{"release a read hold to a writer", all(behind, wants(k, 3)), ends(k, 1), "told 0", "told -1"},
		{"release a read hold past an absent writer to readers",
			all(has(k, 1), absent(Write, 2), runs("ZADD", readQueue, "5", id("s:3"))), ends(k, 1), "told 0", "told -1"},
		{"release a read hold to the absent alone", all(has(k, 1), absent(Write, 2)), ends(k, 1), "told 0", "told -1"},
		{"release a read hold under one's own write hold", all(has(Write, 1), under(2, 1)), ends(k, 2), "told 0", "told -1"},
		{"release a read hold beside a queue of another type",
			all(has(k, 1), runs("SET", writeQueue, "x")), ends(k, 1), "damaged", "told -1"},
		{"release a read hold and rest", all(behind), rests(k, 1), "told 0", "told -1"},
		{"release one of two read holds and rest", all(has(k, 1), has(k, 2), runs("PEXPIRE", "a", "5000")), rests(k, 1), "told 0", "told -1"},
		{"release a read hold beside one that rests", all(has(k, 1), has(k, 2), does(rests(k, 1))), ends(k, 2), "told 0", "told -1"},
		{"release a read hold beside the field of one that rests",
			all(has(k, 1), does(rests(k, 1)), has(k, 2)), ends(k, 2), "told 0", "told -1"},
		{"release a read hold beside one whose rest is over",
			all(has(k, 1), does(rests(k, 1)), has(k, 2), wants(Write, 3), runs("SET", fenceKey, "0 readers 1")),
			ends(k, 2), "told 0", "told -1"},
		{"leave the queue of readers", queued, ends(k, 2), "told 0", "told -1"},
	}
}

func permitCases() []scriptCase {
	const k = Semaphore
	queued := all(full, wants(k, 3))
	return []scriptCase{
		{"permit", nothing, word(tries(k, 1)), "granted", same},
		{"permit beside another", has(k, 2), word(tries(k, 1)), "granted", same},
		{"permit of what is taken", full, tries(k, 3), "taken", same},
		{"poll behind a smaller limit", func(r *rig) {
			few := r.lease(k, 2)
			few.Permits = 1
			r.take(r.lease(k, 1))
			r.queues(few, r.lease(k, 3))
		}, polls(k, 3), "taken", same},
		{"queue for a permit", full, asks(k, 3), "taken", once},
		{"queue for a permit behind another", queued, asks(k, 4), "taken", once},
		{"permit whose holder is dead", all(full, over(1)), word(tries(k, 3)), "granted", same},
		{"permit whose holder is dead, for which another queues", all(queued, over(1)), word(tries(k, 4)), "taken", same},
		{"permit whose holder is dead, for which the absent queue",
			all(full, absent(k, 3), over(1)), word(tries(k, 4)), "granted", same},
		{"queue for one of two permits whose holders are dead",
			all(queued, over(1), over(2)), word(asks(k, 4)), "granted", once},
		{"permit that was granted", all(queued, does(ends(k, 1))), word(tries(k, 3)), "granted", same},
		{"permit of more, behind a waiter that wants fewer", queued, asksOf(9, 4), "taken", once},
		{"permit of more", full, asksOf(9, 4), "granted", once},
		{"permit of what is not a semaphore's, with a gap", all(full, does(ends(k, 1))), word(tries(k, 3)), "granted", same},

		{"poll for a permit", queued, polls(k, 3), "taken", same},
		{"poll for two permits", all(queued, wants(k, 4)), polls(k, 3, 4), "taken", same},
		{"poll for a permit that was granted", all(queued, does(ends(k, 1))), word(polls(k, 3)), "granted", same},
		{"poll for a permit whose holder is dead", all(queued, over(1)), word(polls(k, 3)), "granted", same},
		{"poll for a permit without an entry", full, polls(k, 3), "gone", same},
		{"poll for a permit of what is not a semaphore", all(queued, del("a"), runs("SET", "a", "x")), polls(k, 3), "gone", same},

		{"release a permit", has(k, 1), ends(k, 1), "told 0", "told -1"},
		{"release one of two permits", full, ends(k, 1), "told 0", "told -1"},
		{"release a permit to the next", queued, ends(k, 1), "told 0", "told -1"},
		{"release a permit past the absent", all(full, absent(k, 3), wants(k, 4)), ends(k, 1), "told 0", "told -1"},
		{"release the last permit to the absent alone", all(full, absent(k, 3), over(2)), ends(k, 1), "told 0", "told -1"},
		{"release past more of the absent than one script passes", all(has(Plain, 1), dead(plainQueue, 1002, ""), wants(Plain, 4)),
			ends(Plain, 1), "told 0", "told -1"},
		{"release a permit past many of the absent", all(full, dead(plainQueue, 250, " 2 5000"), wants(k, 4)), ends(k, 1), "told 0", "told -1"},
		{"release a permit beside a token of another type",
			all(queued, del(fenceKey), runs("HSET", fenceKey, "no", "token")), ends(k, 1), "damaged", "told -1"},
		{"release a permit and rest", queued, rests(k, 1), "told 0", "told -1"},
		{"release a permit that is gone", full, ends(k, 3), "told -1", same},
		{"leave the queue for permits before a waiter that wants more",
			all(queued, does(asksOf(9, 4))), ends(k, 3), "told 0", "told -1"},
		{"leave the queue for permits from behind", all(queued, wants(k, 4)), ends(k, 4), "told 0", "told -1"},
	}
}

// redissonCases are those in which a client of Redisson listens on the channels of the lock.
func redissonCases() []scriptCase {
	waits := all(has(Fair, 1), wants(Fair, 2), does(ends(Fair, 1))) // 2 has it
	turn := all(waits, wants(Fair, 3), does(ends(Fair, 2)))
	writers := all(has(Write, 1), wants(Write, 2), does(ends(Write, 1)))
	return []scriptCase{
		{"release to Redisson alone", has(Fair, 1), ends(Fair, 1), "told 1", "told -1"},
		{"release to the next before Redisson", all(has(Fair, 1), wants(Fair, 2)), ends(Fair, 1), "told 0", "told -1"},
		{"release to Redisson before the next", all(waits, wants(Fair, 3)), ends(Fair, 2), "told 1", "told -1"},
		{"acquire in Redisson's turn", turn, tries(Fair, 4), "theirs", once},
		{"queue in Redisson's turn", turn, asks(Fair, 4), "theirs", once},
		{"poll in Redisson's turn", turn, polls(Fair, 3), "theirs", once},
		{"acquire when Redisson's turn is due", all(waits, wants(Fair, 3), del("a")), tries(Fair, 4), "theirs", once},
		{"poll when Redisson's turn is due", all(waits, wants(Fair, 3), del("a")), polls(Fair, 3), "theirs", once},
		{"release after Redisson's turn", all(has(Fair, 1), turnSince(plainQueue, -time.Second/2)), ends(Fair, 1), "told 1", "told -1"},
		{"acquire after a turn that was not used", turnSince(plainQueue, time.Second/2), tries(Fair, 1), "granted", same},
		{"hand off to Redisson", has(Plain, 1), handsOff(1, 2), "granted", same},
		{"force open to Redisson", has(Fair, 1), forces, "opened true", "opened false"},

		{"release a write hold to Redisson alone", has(Write, 1), ends(Write, 1), "told 1", "told -1"},
		{"release a write hold to Redisson before the next", all(writers, wants(Write, 3)), ends(Write, 2), "told 1", "told -1"},
		{"write when Redisson's turn is due", all(writers, wants(Write, 3), del("a")), tries(Write, 4), "theirs", once},
		{"poll to write when Redisson's turn is due", all(writers, wants(Write, 3), del("a")), polls(Write, 3), "theirs", once},
		{"release a write hold and read on", all(has(Write, 1), under(2, 1)), ends(Write, 1), "told 0", "told -1"},
		{"read beside a reader while Redisson listens", has(Read, 1), tries(Read, 2), "taken", same},
		{"read in Redisson's turn", turnSince(writeQueue, 0), tries(Read, 1), "theirs", once},
		{"read when Redisson's turn is due", turnSince(writeQueue, -1), tries(Read, 1), "reads alone", same},
		{"poll to read in Redisson's turn",
			all(has(Write, 1), wants(Read, 2), turnSince(writeQueue, 0), del("a")), polls(Read, 2), "theirs", once},
		{"poll to read when Redisson's turn is due",
			all(has(Read, 1), wants(Read, 2), del("a")), polls(Read, 2), "theirs", same},
		{"release a read hold to Redisson alone", has(Read, 1), ends(Read, 1), "told 1", "told -1"},
		{"release a read hold to Redisson before readers", all(has(Read, 1), wants(Read, 2)), ends(Read, 1), "told 1", "told -1"},
	}
}

// clusterCases are cases in a cluster, where subscribers are counted by another command, or not at all.
func clusterCases() (cases []scriptCase) {
	for _, k := range []Kind{Fair, Write, Semaphore} {
		held := has(k, 1)
		if k == Semaphore {
			held = full
		}
		cases = append(cases,
			scriptCase{"release", held, ends(k, 1), "told", "told -1"},
			scriptCase{"release to the next", all(held, wants(k, 3), wants(k, 4)), ends(k, 1), "told 0", "told -1"},
			scriptCase{"poll", all(held, wants(k, 3)), polls(k, 3), "taken", same},
			scriptCase{"acquire in Redisson's turn", turnSince(queueOfKind(k), 0), tries(k, 5), "", once},
			scriptCase{"acquire after Redisson's turn", turnSince(queueOfKind(k), time.Second), tries(k, 5), "", once},
		)
	}
	return append(cases,
		scriptCase{"release to readers", all(has(Write, 1), wants(Read, 2)), ends(Write, 1), "told 0", "told -1"},
		scriptCase{"release the last read hold", has(Read, 1), ends(Read, 1), "told", "told -1"},
		scriptCase{"force", all(has(Fair, 1), wants(Fair, 2)), forces, "opened true", "opened false"},
	)
}
