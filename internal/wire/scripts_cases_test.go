package wire

import "slices"

func scriptCases() []scriptCase {
	return slices.Concat(manyCases(), rwCases(), rwListCases(), fairCases(), absentCases(), foreignCases())
}

// manyCases are of scripts that take several locks, or any kind of lock.
func manyCases() []scriptCase {
	return []scriptCase{
		{"inspect", has(Plain, 1), inspects, "waiters 0, fields 1", same},
		{"inspect what others queue for", all(has(Fair, 1), wants(Fair, 2), wants(Fair, 3)), inspects, "waiters 2, fields 1", same},
		{"force", has(Plain, 1), forces, "opened true", "opened false"},
		{"force who was named", has(Plain, 1), forcesFrom(1), "opened true", "opened false"},
		{"force a writer that was named", has(Write, 1), forcesFrom(1), "opened true", "opened false"},
		{"force readers that were named, of whom one has gone", has(Read, 2), forcesFrom(1, 2), "opened true", "opened false"},
		{"force after the one that was named", has(Plain, 2), forcesFrom(1), "other", same},
		{"force after a writer that was named", has(Write, 2), forcesFrom(1), "other", same},
		{"force beside a reader that was not named", all(has(Read, 1), has(Read, 2)), forcesFrom(1), "other", same},
		{"force who was named, with a field added", all(has(Plain, 1), added), forcesFrom(1), "opened true", "no lock"},
		{"force to the next, who was not named", all(has(Fair, 1), wants(Fair, 2)), forcesFrom(1), "opened true", "other"},
		{"force what is read", all(has(Read, 1), has(Read, 2)), forces, "opened true", "opened false"},
	}
}

func rwCases() []scriptCase {
	return []scriptCase{
		{"acquire", nothing, tries(Plain, 1), "granted", same},
		{"acquire of a held lock", has(Plain, 2), tries(Plain, 1), "taken", same},
		{"release", has(Plain, 1), ends(Plain, 1), "told 0", "told -1"},
		{"renew", has(Plain, 1), renews(Plain, 1), "kept", same},
		{"renew of a hold that is gone", has(Plain, 2), renews(Plain, 1), "gone", same},

		{"read", nothing, asks(Read, 1), "join", same},
		{"read beside a reader", all(has(Read, 2), theirsWas), asks(Read, 1), "join", same},
		{"read beside a reader while a writer of Redisson waits", has(Read, 2), asks(Read, 1), "taken", same},
		{"read of a written lock", has(Write, 2), asks(Read, 1), "taken", same},
		{"read and queue while a writer queues", all(has(Read, 2), wants(Write, 3)), asks(Read, 1), "taken", same},
		{"try to read while a writer queues", all(has(Read, 2), wants(Write, 3)), tries(Read, 1), "taken", same},
		{"read while an absent writer queues", all(has(Read, 2), absent(Write, 3), theirsWas), asks(Read, 1), "join", same},
		{"read while a frozen writer queues", all(has(Read, 2), wants(Write, 3), frozen, theirsWas), asks(Read, 1), "join", same},
		{"read under one's own write hold", has(Write, 2), readsUnder(1, 2), "join", same},
		{"read under a write hold that is not there", has(Write, 2), readsUnder(1, 4), "taken", same},
		{"read again while a writer queues", all(has(Read, 1), wants(Write, 2)), tries(Read, 1), "alone", same},
		{"read a free lock that a reader queues for", all(has(Write, 2), wants(Read, 3), del("a")), asks(Read, 1), "join", same},
		{"read a free lock that a writer queues for", all(has(Write, 2), wants(Write, 3), del("a")), asks(Read, 1), "taken", same},
		{"try to read a free lock that a writer queues for", all(has(Write, 2), wants(Write, 3), del("a")), tries(Read, 1), "taken", same},
		{"read a free lock that an absent writer queues for", all(has(Write, 2), absent(Write, 3), del("a")), tries(Read, 1), "join", same},
		{"write", nothing, asks(Write, 1), "granted", same},
		{"write of a written lock", has(Write, 2), asks(Write, 1), "taken", same},
		{"write of a read lock", has(Read, 2), asks(Write, 1), "taken", same},
		{"write after having queued", all(has(Read, 2), wants(Write, 1), handsOver(Read, 2)), asks(Write, 1), "granted", same},
		{"write a free lock that others queue for", all(has(Write, 2), wants(Write, 3), wants(Read, 4), del("a")), asks(Write, 1), "taken", same},
		{"try to write a free lock that the absent queue for", all(has(Write, 2), absent(Write, 3), del("a")), tries(Write, 1), "granted", same},
		{"read a free lock that is left to Redisson", patient, asks(Read, 1), "taken", same},
		{"write a free lock that is left to Redisson", patient, asks(Write, 1), "taken", same},
		{"try to write a free lock that is left to Redisson", patient, tries(Write, 1), "taken", same},
		{"join", all(has(Read, 1), theirsWas), joins(1, 2), "other", same},
		{"join while a writer queues", all(has(Read, 1), wants(Write, 3)), joins(1, 2), "taken", same},
		{"join under one's own write hold", all(has(Write, 2), under(1, 2)), joins(1, 3), "taken", same},
		{"join a hold that is gone", has(Read, 3), joins(1, 2), "gone", same},
		{"look", all(has(Write, 2), wants(Read, 1)), looks(Read, 1), "taken", same},
		{"look for a reader that is dead", all(has(Read, 1), has(Read, 2), dead(1, 2)), looks(Read, 1), "lost", same},
		{"look while readers read", all(has(Read, 2), wants(Write, 1)), looks(Write, 1), "taken", same},
		{"look without a place", has(Write, 2), looks(Write, 1), "lost", same},
		{"look at a free lock that is left to Redisson", all(has(Write, 2), wants(Write, 1), does(ends(Write, 2)), patient), looks(Write, 1), "theirs", same},
		{"look for a grant to write whose message was lost", all(has(Read, 2), wants(Write, 1), handsOver(Read, 2)), looks(Write, 1), "granted", same},
		{"look for a grant to read whose message was lost", all(has(Write, 2), wants(Read, 1), handsOver(Write, 2)), looks(Read, 1), "join", same},
		{"look for a grant to read that is not in the list",
			all(has(Write, 2), wants(Read, 1), wants(Write, 3), handsOver(Write, 2), del(rwReaders)), looks(Read, 1), "alone", same},
		{"look at a free lock to write", all(has(Write, 2), wants(Write, 1), del("a")), looks(Write, 1), "granted", same},
		{"look at a free lock to read", all(has(Write, 2), wants(Read, 1), del("a")), looks(Read, 1), "join", same},
		{"look beside a dead reader", all(has(Read, 2), has(Read, 4), wants(Write, 1), dead(2, 4)), looks(Write, 1), "taken", same},
		{"look to read when the writer is absent",
			all(has(Read, 2), wants(Write, 3), wants(Read, 1), does(ends(Write, 3)), absent(Write, 3)), looks(Read, 1), "alone", same},
		{"look while Redisson writes", all(redissonWrites, wants(Read, 1)), looks(Read, 1), "theirs", same},
		{"look while Redisson reads", all(redisson, wants(Write, 1)), looks(Write, 1), "theirs", same},
		{"look at what is no lock", all(has(Write, 2), wants(Read, 1), del("a"), runs("SET", "a", "text")), looks(Read, 1), "lost", same},
		{"release a read hold", has(Read, 1), ends(Read, 1), "told 1", "told -1"},
		{"release one of two read holds", all(has(Read, 1), has(Read, 2)), ends(Read, 1), "told 0", "told -1"},
		{"leave the queue of readers", all(has(Write, 2), wants(Read, 1)), ends(Read, 1), "told 0", "told -1"},
		{"release a read hold to a writer", all(has(Read, 1), wants(Write, 2), wants(Read, 3), theirsWas), ends(Read, 1), "told 0", "told -1"},
		{"release a read hold past an absent writer to the next", all(has(Read, 1), absent(Write, 2), wants(Write, 3), theirsWas), ends(Read, 1), "told 0", "told -1"},
		{"release a read hold past an absent writer to readers", all(has(Read, 1), absent(Write, 2), wants(Write, 4), wants(Read, 3), does(ends(Write, 4))), ends(Read, 1), "told 0", "told -1"},
		{"release a read hold past who has lost its place", all(has(Read, 1), absent(Write, 2), frozen), ends(Read, 1), "told 1", "told -1"},
		{"release a read hold under one's own write hold", all(has(Write, 2), under(1, 2)), ends(Read, 1), "told 0", "told -1"},
		{"release a write hold", has(Write, 1), ends(Write, 1), "told 1", "told -1"},
		{"release a write hold and read on", all(has(Write, 1), under(2, 1)), ends(Write, 1), "told 1", "told -1"},
		{"release a write hold to readers", all(has(Write, 1), wants(Write, 4), wants(Read, 2), wants(Read, 3), theirsWas), ends(Write, 1), "told 0", "told -1"},
		{"release a write hold to more readers than a script lets in",
			all(has(Write, 1), wants(Write, 4), crowdWants(150), theirsWas), ends(Write, 1), "told 0", "told -1"},
		{"read while others come in",
			all(has(Write, 1), wants(Write, 4), crowdWants(150), handsOver(Write, 1), theirsWas), asks(Read, 2), "taken", same},
		{"look for the readers that are left", all(has(Write, 1), wants(Write, 4), crowdWants(150), handsOver(Write, 1)), looks(Read, 1140), "alone", same},
		{"release a write hold to the next writer", all(has(Write, 1), wants(Write, 2), theirsWas), ends(Write, 1), "told 0", "told -1"},
		{"release a write hold to Redisson before readers", all(has(Write, 1), wants(Write, 4), wants(Read, 2)), ends(Write, 1), "told 1", "told -1"},
		{"release a write hold and queue again behind another", all(has(Write, 1), wants(Write, 2), theirsWas), endsFor(Write, 1, 3), "told 0", "told -1"},
		{"release a write hold and queue again alone", all(has(Write, 1), theirsWas), endsFor(Write, 1, 3), "told 1", "told -1"},
		{"release a write hold to readers and queue again", all(has(Write, 1), wants(Read, 2), theirsWas), endsFor(Write, 1, 3), "told 0", "told -1"},
		{"release a write hold past an absent reader", all(has(Write, 1), absent(Read, 2), wants(Write, 3), theirsWas), ends(Write, 1), "told 0", "told -1"},
		{"release a write hold, read on, and let others in", all(has(Write, 1), under(2, 1), wants(Write, 4), wants(Read, 3)), ends(Write, 1), "told 1", "told -1"},
		{"leave the queue of writers", all(has(Read, 2), wants(Write, 1)), ends(Write, 1), "told 0", "told -1"},
		{"leave the queue of writers to readers", all(has(Read, 2), wants(Write, 1), wants(Read, 3)), ends(Write, 1), "told 0", "told -1"},
		{"renew a read hold", has(Read, 1), renews(Read, 1), "kept", same},
		{"renew a write hold", all(has(Write, 1), runs("PEXPIRE", "a", "20000")), renews(Write, 1), "kept", same},
	}
}

// rwListCases are of readers some of whom are of Redisson, or not in the list, or dead.
func rwListCases() []scriptCase {
	two := all(has(Read, 1), has(Read, 2))
	return []scriptCase{
		{"read beside Redisson", all(redisson, theirsWas), asks(Read, 1), "join", same},
		{"read beside a reader of Redisson without a key", all(redisson, keyless, theirsWas), asks(Read, 1), "join", same},
		{"read beside a reader who is not in the list", all(has(Read, 2), del(rwReaders), theirsWas), asks(Read, 1), "join", same},
		{"read with a list of readers who are gone", runs("ZADD", rwReaders, "1", id("x:1")), asks(Read, 1), "join", same},
		{"write beside Redisson", all(redisson, has(Read, 2)), asks(Write, 1), "taken", same},
		{"write beside a reader of Redisson without a key", all(redisson, keyless), asks(Write, 1), "taken", same},
		{"write beside a dead reader", all(two, dead(1, 2)), asks(Write, 3), "taken", same},
		{"write beside a dead reader who is not in the list", all(two, dead(1, 2), del(rwReaders)), asks(Write, 3), "taken", same},

		{"release a read hold beside Redisson", all(redisson, has(Read, 1)), ends(Read, 1), "told 0", "told -1"},
		{"release a read hold beside a reader of Redisson without a key",
			all(redisson, has(Read, 1), keyless), ends(Read, 1), "told 0", "told -1"},
		{"release a read hold beside a reader whom a renewal has seen without a key",
			all(redisson, has(Read, 1), keyless, does(renews(Read, 1))), ends(Read, 1), "told 0", "told -1"},
		{"release a read hold beside a dead reader", all(two, dead(1, 2)), ends(Read, 2), "told 1", "told -1"},
		{"release a read hold that is not in the list", all(two, del(rwReaders)), ends(Read, 1), "told 0", "told -1"},
		{"release a write hold and leave a dead reader", all(has(Write, 1), under(2, 1), del(timeoutOf("s:2", 1))), ends(Write, 1), "told 1", "told -1"},

		{"renew one of two read holds", two, renews(Read, 1), "kept", same},
		{"renew a read hold that is gone", has(Read, 2), renews(Read, 1), "gone", same},
		{"renew a read hold that has ended", all(two, dead(1, 2)), renews(Read, 1), "gone", same},
		{"renew a read hold under one's own write hold", all(has(Write, 2), under(1, 2)), renews(Read, 1), "kept", same},
		{"renew a read hold beside Redisson", all(redisson, has(Read, 1)), renews(Read, 1), "kept", same},
		{"renew a read hold beside a reader of Redisson without a key",
			all(redisson, has(Read, 1), keyless), renews(Read, 1), "kept", same},
		{"renew a read hold that is not in the list", all(two, runs("ZREM", rwReaders, id("s:1"))), renews(Read, 1), "kept", same},
		{"renew a read hold whose list is about to end", all(two, runs("PEXPIRE", rwReaders, "20000")), renews(Read, 1), "kept", same},
		{"renew a read hold without a list", all(two, del(rwReaders)), renews(Read, 1), "kept", same},
		{"renew a write hold that is gone", has(Write, 2), renews(Write, 1), "gone", same},
	}
}

func fairCases() []scriptCase {
	return []scriptCase{
		{"enter", nothing, tries(Fair, 1), "granted", same},
		{"enter a held lock", has(Fair, 2), tries(Fair, 1), "taken", same},
		{"enter and queue", has(Fair, 2), asks(Fair, 1), "taken", same},
		{"enter and queue behind another", all(has(Fair, 2), wants(Fair, 3)), asks(Fair, 1), "taken", same},
		{"enter a free lock that another waits for",
			all(has(Fair, 2), wants(Fair, 3), del("a")), tries(Fair, 1), "taken", same},
		{"enter after one's place was given the lock",
			all(has(Fair, 2), wants(Fair, 1), does(ends(Fair, 2))), tries(Fair, 1), "granted", same},
		{"look", all(has(Fair, 2), wants(Fair, 1)), looks(Fair, 1), "taken", same},
		{"look without a place", has(Fair, 2), looks(Fair, 1), "lost", same},
		{"look for a grant whose message was lost",
			all(has(Fair, 2), wants(Fair, 1), does(ends(Fair, 2))), looks(Fair, 1), "granted", same},
		{"look at a free lock", all(has(Fair, 2), wants(Fair, 1), del("a")), looks(Fair, 1), "granted", same},
		{"look at a free lock, second in the queue",
			all(has(Fair, 2), wants(Fair, 3), wants(Fair, 1), del("a")), looks(Fair, 1), "taken", same},
		{"leave", has(Fair, 1), ends(Fair, 1), "told 0", "told -1"},
		{"leave to the next", all(has(Fair, 1), wants(Fair, 2), wants(Fair, 3)), ends(Fair, 1), "told 0", "told -1"},
		{"leave to the next at the end of a block of tokens",
			all(has(Fair, 1), wants(Fair, 2), runs("SET", fenceKey, "1040")), ends(Fair, 1), "told 0", "told -1"},
		{"leave to the next without a token", all(has(Fair, 1), wants(Fair, 2), del(fenceKey)), ends(Fair, 1), "told 0", "told -1"},
		{"leave to Redisson", all(has(Fair, 1), wants(Fair, 2), func(r *rig) {
			r.must("RPUSH", "redisson_lock_queue:{a}", "j:1")
		}), ends(Fair, 1), "told 0", "told -1"},
		{"leave the queue", all(has(Fair, 1), wants(Fair, 2)), ends(Fair, 2), "told 0", "told -1"},
		{"leave as the next already", all(has(Fair, 1), wants(Fair, 2), does(ends(Fair, 1))), ends(Fair, 2), "told 0", "told -1"},
		{"release and queue again behind another", all(has(Plain, 1), wants(Fair, 2)), endsFor(Plain, 1, 3), "told 0", "told -1"},
		{"release and queue again alone", has(Plain, 1), endsFor(Plain, 1, 3), "told 1", "told -1"},
		{"release to a Mutex that queues", all(has(Plain, 1), wants(Fair, 2)), ends(Plain, 1), "told 0", "told -1"},
		{"leave the queue before another", all(has(Fair, 1), wants(Fair, 2), wants(Fair, 3)), ends(Fair, 2), "told 0", "told -1"},
		{"look at a lock of Redisson", all(has(Fair, 1), wants(Fair, 2), del("a"), redissonHas), looks(Fair, 2), "theirs", same},
		{"queue for a lock of Redisson", redissonHas, asks(Fair, 2), "taken", same},
		{"renew a claim", all(has(Fair, 2), wants(Fair, 1), does(ends(Fair, 2))), renews(Fair, 1), "kept", same},
	}
}

// absentCases are of waiters whose session is not there: those of x.
func absentCases() []scriptCase {
	behind := all(has(Fair, 1), absent(Fair, 1), absent(Fair, 2), wants(Fair, 2), wants(Fair, 3))
	passed := all(behind, does(ends(Fair, 1))) // they are known to be absent, and 2 has the lock
	alone := all(has(Fair, 1), absent(Fair, 1), absent(Fair, 2))
	known := all(alone, does(ends(Fair, 1)))
	return []scriptCase{
		{"leave past the absent", behind, ends(Fair, 1), "told 0", "told -1"},
		{"leave past who is known to be absent", passed, ends(Fair, 2), "told 0", "told -1"},
		{"leave to the absent alone", alone, ends(Fair, 1), "told 0", "told -1"},
		{"leave the queue of the absent", passed, ends(Fair, 3), "told 0", "told -1"},

		{"enter a free lock that the absent wait for", known, tries(Fair, 2), "granted", same},
		{"enter and queue for a free lock that the absent wait for", known, asks(Fair, 2), "granted", same},
		{"enter a free lock that the absent and another wait for", all(behind, del("a")), asks(Fair, 4), "taken", same},

		{"look past the absent", all(behind, del("a")), looks(Fair, 2), "granted", same},
		{"look beside the absent", passed, looks(Fair, 3), "taken", same},
		{"look after having stood back", all(known, has(Fair, 2)), func(r *rig) string { return said(r.look(of("x", r.lease(Fair, 1)))[0]) }, "taken", same},

		{"force open to the absent alone", alone, forces, "opened true", "opened false"},
		{"force open to who stands back", all(known, has(Fair, 2)), forces, "opened true", "opened false"},
	}
}

// redissonCases are beside waiters of Redisson that listen to the lock's channel. They come last:
// the subscription stays.
func redissonCases() []scriptCase {
	return []scriptCase{
		{"release to Redisson alone", all(has(Plain, 1), listens), ends(Plain, 1), "told 1", "told -1"},
		{"release to Redisson before the next", all(has(Plain, 1), wants(Fair, 2)), ends(Plain, 1), "told 1", "told -1"},
		{"release to Redisson and queue again", has(Plain, 1), endsFor(Plain, 1, 3), "told 1", "told -1"},
		{"queue while the lock is left to Redisson", all(has(Plain, 1), wants(Fair, 2), does(ends(Plain, 1)), patient), asks(Fair, 3), "taken", same},
		{"look while the lock is left to Redisson", all(has(Plain, 1), wants(Fair, 2), does(ends(Plain, 1)), patient), looks(Fair, 2), "theirs", same},
		{"try while the lock is left to Redisson", all(has(Plain, 1), does(ends(Plain, 1)), patient), tries(Plain, 2), "taken", same},
		{"release when Redisson has had its turn a moment ago", all(has(Plain, 2), wants(Fair, 3), theirsWas), ends(Plain, 2), "told 0", "told -1"},
		{"queue while Redisson has its turn", all(redissonHas, patient), asks(Fair, 3), "taken", same},
		{"look while Redisson has its turn", all(has(Plain, 1), wants(Fair, 2), does(ends(Plain, 1)), redissonHas, patient), looks(Fair, 2), "theirs", same},
	}
}
