package wire

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/transport"
)

// What a Group sends for several Mutexes of one slot.

// AcquireAll asks for several plain locks of one slot, all or none. It returns their tokens
// and -1; or, if one is taken, its index and the time to live of its holder's lease; or, if one
// is no lock, its index and the error.
func (p *Protocol) AcquireAll(ctx context.Context, ls []*Ref) (tokens []int64, taken int, ttl time.Duration, err error) {
	n := len(ls)
	keys, args := make([]string, 3*n), make([]string, 0, 2*n)
	var length time.Duration // of the lock before, as ms
	var ms string
	for i, l := range ls {
		keys[i], keys[n+i], keys[2*n+i] = l.Keys.Name, l.Keys.fence, l.Keys.aux
		if args = append(args, l.ID, ms); l.Length != length {
			length, ms = l.Length, Millis(l.Length)
			args[2*i+1] = ms
		}
	}
	reply, err := p.Eval(ctx, p.set().acquireAll, keys, args).AsIntSlice()
	switch {
	case err != nil:
		at, err := whichIsNoLock(ls, err)
		return nil, at, 0, err
	case reply[0] == 0:
		return reply[1:], -1, 0, nil
	}
	_, ttl, _ = Granted(reply[1], nil)
	return nil, int(reply[0]) - 1, ttl, nil
}

// ReleaseSome ends several plain holds of one slot with one script. For each it returns what
// Release does.
func (p *Protocol) ReleaseSome(ctx context.Context, ls []*Ref) (told []int64, err error) {
	n := len(ls)
	keys, args := make([]string, 3*n), make([]string, 0, 3*n)
	for i, l := range ls {
		keys[i], keys[n+i], keys[2*n+i] = l.Keys.Name, l.Keys.fence, l.Keys.aux
		args = append(args, l.ID, l.Keys.Channel, claimMS(l))
	}
	return p.Eval(ctx, p.set().releaseAll, keys, args).AsIntSlice()
}

// whichIsNoLock returns the index that follows the error of acquire_all.lua, and the error
// explained; -1 if the error is not about one of ls alone.
func whichIsNoLock(ls []*Ref, err error) (int, error) {
	if code, _ := transport.Code(err); code == CodeNotLock {
		text := err.Error()
		if at, bad := strconv.Atoi(text[strings.LastIndexByte(text, ' ')+1:]); bad == nil && at >= 1 && at <= len(ls) {
			return at - 1, ls[at-1].Keys.explain(err)
		}
	}
	return -1, explain(err, "", prefixFence+":{…}")
}
