package wire

import "time"

// Granted splits the reply of a script that acquires.
func Granted(n int64, err error) (token int64, ttl time.Duration, _ error) {
	if err != nil || n > 0 {
		return n, 0, err
	}
	return 0, time.Duration(-1-n) * time.Millisecond, nil
}

// Tokens returns how many fencing tokens an acquisition got, of which token is the first; lua/lib/fence.lua
// issues them.
func Tokens(token int64) int64 {
	if token%1024 == 0 {
		return 1024
	}
	return 1
}

// issued returns when a token was issued, on the server's clock (ms).
func issued(token int64) int64 { return token / 1024 }

// Replies of a probe.
const (
	Theirs    = -1 << 51 // Redisson holds the lock, and the contender is the first of the queue
	LostPlace = -1 << 52 // it is neither holder nor in the queue, or its lock is something else
	HasPermit = 1        // it has a permit; Acquire returns token and slot
	Tokenless = -1 << 50 // it has the lock, but no token can be issued: a key beside the lock is something else
)

// Replies of the scripts for the read side.
const (
	ReadJoin  = 1 // held, and more readers may join
	readAlone = 2 // held, but a writer waits
	ReadOther = 3 // not held: readers may join the other hold
	ReadGone  = 4 // not held, and neither is the other hold
)

// ForRedisson is the second message of a write hold's release, which Redisson reads as a 0 (lua/lib/turns.lua).
const ForRedisson = "00"
