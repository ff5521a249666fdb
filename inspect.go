package relock

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/wire"
)

// Mode is how a lock is held.
type Mode uint8

const (
	Unlocked Mode = iota
	Exclusive
	Shared // held by readers, or with permits of a [Semaphore]
)

func (m Mode) String() string {
	switch m {
	case Unlocked:
		return "unlocked"
	case Exclusive:
		return "exclusive"
	case Shared:
		return "shared"
	}
	return "unknown"
}

// State is the state of a lock in Redis.
type State struct {
	Mode    Mode
	Holders []Holder
	TTL     time.Duration // left of the lease, of several the longest; negative if the key has none
	Waiters int           // queued: calls of a FairMutex or Semaphore, sessions for a Mutex

	// Token is the fencing token of an exclusive hold of relock, or of a semaphore with one permit;
	// 0 for others, or if Redis has evicted it. If the lock was passed on in its process, the
	// holder's token is larger.
	Token int64

	// Age is how long ago Redis granted that hold; 0 without a token, and of a Redlock while
	// another server's clock is ahead.
	Age time.Duration

	Permits int // of a Semaphore: the limit that its last holder gave; 0 for other locks

	// Note is that of the hold ([WithNote]), 25 ms after its start at the latest; a shorter hold
	// may leave none. While another session only keeps the lock, it is that of its last hold.
	Note string
	Kept bool // this session only keeps the lock ([WithKeep]); unknown of other sessions
}

// Holder is one entry of a lock in Redis.
type Holder struct {
	ID      string // hold id
	Session string // or Redisson client
	Label   string // see [WithLabel]; empty for Redisson, and if unknown
	Count   int    // of Redisson's locks; 1 for relock's, or 0 after Unlock ([WithMinHold])
	Slot    int    // of a permit of a Semaphore; 0 for other locks
}

// Inspect returns the state of the lock of that name, of relock or Redisson. It makes two round
// trips and changes nothing. If the key is not a lock, it returns [ErrNotLock].
func (s *Session) Inspect(ctx context.Context, name string) (State, error) {
	in, err := s.e.Inspect(ctx, name)
	if err != nil {
		return State{}, err
	}
	st := State{Waiters: in.Waiters}
	if in.TTL == -2 {
		return st, nil
	}
	st.TTL = time.Duration(in.TTL) * time.Millisecond
	if in.Permits > 0 {
		st.permits(in)
		return st, nil
	}
	st.Mode = Exclusive
	known := make(map[string]int, len(in.Fields)) // where a hold id is in Holders
	alone := ""                                   // the hold id of the one that may write
	for field, value := range in.Fields {
		if field == "mode" {
			if value == 1 {
				st.Mode = Shared
			}
			continue
		}
		id, writes := strings.CutSuffix(field, ":write")
		if writes || len(in.Fields) == 1 {
			alone = id
		}
		if i, ok := known[id]; ok {
			st.Holders[i].Count += value // a thread of Redisson that writes and reads
			continue
		}
		known[id] = len(st.Holders)
		session := id
		if i := strings.LastIndexByte(id, ':'); i >= 0 {
			session = id[:i]
		}
		st.Holders = append(st.Holders, Holder{ID: id, Session: session, Count: value})
	}
	slices.SortFunc(st.Holders, func(a, b Holder) int { return cmp.Compare(a.ID, b.ID) })
	for i := range st.Holders {
		st.Holders[i].Label = in.Labels[st.Holders[i].Session]
	}
	if st.Mode == Exclusive && wire.IsOurs(alone) && in.Token > 0 {
		st.Token, st.Age, st.Note = in.Token, in.Age, in.Note
	}
	if kept := s.e.Keeps(name); kept != "" {
		if st.Kept = slices.ContainsFunc(st.Holders, func(h Holder) bool { return h.ID == kept }); st.Kept {
			st.Note = "" // of the hold before
		}
	}
	return st, nil
}

// permits enters what is known of a semaphore, with its holders in order of their slots.
func (st *State) permits(in wire.State) {
	st.Mode, st.Permits = Shared, in.Permits
	for id, slot := range in.Fields {
		session, _, _ := strings.Cut(id, ":")
		st.Holders = append(st.Holders, Holder{ID: id, Session: session, Label: in.Labels[session], Count: 1, Slot: slot})
	}
	slices.SortFunc(st.Holders, func(a, b Holder) int { return cmp.Or(cmp.Compare(a.Slot, b.Slot), cmp.Compare(a.ID, b.ID)) })
	if st.Permits == 1 && len(st.Holders) == 1 { // of more permits the last token may be another's
		st.Token, st.Age = in.Token, in.Age
	}
}

// ForceUnlock opens the lock of that name, with all permits of a [Semaphore], and reports whether
// it was locked. If the key is not a lock, it changes nothing, and returns [ErrNotLock]. A relock
// holder is told at once, by [ErrForced]; one that is cut off from Redis hears later, by [ErrGone].
// Its work does not stop: use this when it is known to be stuck or dead.
func (s *Session) ForceUnlock(ctx context.Context, name string) (bool, error) {
	return s.e.ForceUnlock(ctx, name)
}

// ForceUnlockHolders is [Session.ForceUnlock] of a lock that only these holders ([Holder.ID]) have.
// If somebody else has it, it changes nothing, and returns [ErrTaken]. Of a [Semaphore] it ends
// these holders' permits. Without holders it does nothing.
func (s *Session) ForceUnlockHolders(ctx context.Context, name string, holders ...string) (bool, error) {
	if len(holders) == 0 {
		return false, nil
	}
	return s.e.ForceUnlock(ctx, name, holders...)
}
