package wire

import "time"

// rareCases are calls in states that do not last, or whose reply to a second call is
// another one because the first has given the lock away.
func rareCases(tr *tracer) []scriptCase {
	turn := all(has(Fair, 1), wants(Fair, 2), runs("RPUSH", "redisson_lock_queue:{a}", "j:1"), does(ends(Fair, 1)))
	lapsed := all(has(Fair, 1), wants(Fair, 2), wants(Fair, 3), does(ends(Fair, 1)), del("a"))
	return []scriptCase{
		{name: "write in the last millisecond of a dead reader", before: nothing, call: func(r *rig) string {
			const line = "redis.call('del', q.lock)"
			for end := time.Now().Add(20 * time.Second); !tr.seen[line] && time.Now().Before(end); {
				r.must("FLUSHALL")
				r.must("HSET", "a", "mode", "read", id("s:1"), "1")
				r.must("PEXPIRE", "a", "2")
				for r.int("EXISTS", "a") == 1 && asks(Write, 1)(r) == "taken" {
				}
			}
			return ""
		}},
		{name: "enter a held lock without the right to HRANDFIELD", before: has(Fair, 1), call: func(r *rig) string {
			r.must("ACL", "SETUSER", "default", "-hrandfield")
			defer r.must("ACL", "SETUSER", "default", "+hrandfield")
			return asks(Fair, 2)(r)
		}},
		{name: "enter in Redisson's turn", before: turn, call: asks(Fair, 3)},
		{name: "look in Redisson's turn", before: turn, call: looks(Fair, 2)},
		{name: "force open what is read to a writer", before: all(has(Read, 1), has(Read, 2), wants(Write, 3)), call: forces},
		{name: "force open to the next", before: all(has(Fair, 1), wants(Fair, 2)), call: forces},
		{name: "enter a free lock whose last holder let its claim lapse", before: lapsed, call: asks(Fair, 4)},
		{name: "look at a lock whose last holder let its claim lapse", before: lapsed, call: looks(Fair, 3)},
		{name: "leave past a writer's place of garbage", before: all(has(Write, 1), wants(Write, 2),
			runs("ZADD", rwQueue, "0.5", "no id"), theirsWas), call: ends(Write, 1)},
		{name: "leave past a reader's place of garbage", before: all(has(Write, 1), wants(Read, 2),
			runs("ZADD", rwQueue, "4000000000000001", "no id"), theirsWas), call: ends(Write, 1)},
		{name: "force open past the absent", before: all(has(Fair, 1), absent(Fair, 1), wants(Fair, 2), wants(Fair, 3),
			does(ends(Fair, 1))), call: forces},
		{name: "leave past more than are remembered", before: all(has(Fair, 1), wants(Fair, 2), absentMany),
			call: ends(Fair, 1)},
		{name: "enter a queue that is to be indexed", before: all(has(Fair, 1), nearIndex), call: asks(Fair, 2)},
		{name: "force open beside a damaged token", before: all(has(Fair, 1), wants(Fair, 2), runs("DEL", fenceKey),
			runs("HSET", fenceKey, "no", "token")), call: forces},
		{name: "force open to Redisson", before: all(has(Fair, 1), wants(Fair, 2),
			runs("RPUSH", "redisson_lock_queue:{a}", "j:1")), call: forces},
	}
}
