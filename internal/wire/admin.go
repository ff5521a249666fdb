package wire

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/relock-go/relock/internal/lockerr"
)

// ErrOtherHolder says that somebody holds the lock who was not named. Nothing was changed.
var ErrOtherHolder = fmt.Errorf("%w: it has changed hands", lockerr.ErrTaken)

// Force unlocks the lock at a key, and reports whether it was locked. If holders are given, by
// their hold ids without ":write", it returns [ErrOtherHolder] if others hold the lock. Of a
// semaphore it ends the permits of these holders, whoever else holds some.
func (p *Protocol) Force(ctx context.Context, key string, holders ...string) (bool, error) {
	k, rw := NewKeys(Plain, key), NewKeys(Write, key)
	n, err := p.Eval(ctx, p.script("force"), []string{key, k.fence, k.queue, rw.queue, rw.readers}, append([]string{
		key, k.Channel, rw.Channel, p.grants(&k), p.numsub(),
	}, holders...)).AsInt64()
	if n < 0 {
		return false, ErrOtherHolder
	}
	return n == 1, k.explain(err)
}

// State is the raw state of a lock.
type State struct {
	TTL     int64             // ms; -1: the key does not expire, -2: not locked
	Waiters int               // entries in the queue
	Token   int64             // the last that was issued; 0 if it is not known
	Age     time.Duration     // since then
	Permits int               // of a semaphore: its limit; else 0
	Note    string            // of the hold that has the token
	Fields  map[string]int    // hold counts by hold id; "mode" is 1 for read mode, else 0. Of a semaphore the slots by hold id
	Labels  map[string]string // of the sessions that hold it; some may be missing
}

// Inspect returns the state of the lock at a key without changing it.
func (p *Protocol) Inspect(ctx context.Context, key string) (State, error) {
	k, rw := NewKeys(Plain, key), NewKeys(Write, key)
	keys := []string{key, k.fence, k.queue, rw.queue, rw.readers}
	rs, err := p.EvalRead(ctx, p.script("inspect"), keys, nil).ToArray()
	if err != nil {
		return State{}, explain(err, key, keys[1:]...)
	}
	var in State
	in.TTL, _ = rs[0].AsInt64()
	waiters, _ := rs[1].AsInt64()
	in.Waiters = int(waiters)
	in.Token, _ = rs[2].AsInt64()
	now, _ := rs[3].AsInt64()
	in.Age = time.Duration(max(now-issued(in.Token), 0)) * time.Millisecond
	permits, _ := rs[4].AsInt64()
	in.Permits = int(permits)
	in.Fields = make(map[string]int, len(rs)/2)
	if note, _ := rs[5].ToString(); CheckNote(note) == nil {
		in.Note = note
	}
	for i := 6; i+1 < len(rs); i += 2 {
		field, _ := rs[i].ToString()
		if field != "mode" && !IsHoldID(field) {
			continue // an application has added it
		}
		value, _ := rs[i+1].ToString()
		in.Fields[field], _ = strconv.Atoi(value) // mode is the only value that is no number
		if field == "mode" && value == "read" {
			in.Fields[field] = 1
		}
	}
	if permits > 0 && len(in.Fields) == 0 { // their leases have ended
		in.TTL = -2
	}
	in.Labels = p.labels(ctx, in.Fields)
	return in, nil
}
