package wire

// Tokens returns how many fencing tokens an acquisition got, of which token is the first;
// lua/lib/fence.lua issues them.
func Tokens(token int64) int64 {
	if token%1024 == 0 {
		return 1024
	}
	return 1
}

// issued returns when a token was issued, on the server's clock (ms).
func issued(token int64) int64 { return token / 1024 }

// Replies of a poll.
const (
	Theirs    = -1 << 51 // Redisson holds the lock, and the waiter is the first of the queue
	LostPlace = -1 << 52 // it is neither holder nor in the queue, or its lock is something else
	HasPermit = 1        // it has a permit; Acquire returns token and slot
	Tokenless = -1 << 50 // it has the lock, but no token can be issued: a key beside the lock is something else
)

// ForRedisson is the second message of a write hold's release, which Redisson reads as a 0
// (lua/lib/turns.lua).
const ForRedisson = "00"
