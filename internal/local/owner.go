package local

import (
	"context"
	"sync"
)

// An Owner is who may enter again what it holds, from [NewOwner]. Owners are compared by address. A
// call without one has a hold of its own.
type Owner struct {
	Minter any // who made the owner; not used here

	mu       sync.Mutex       // protects the following
	sections map[Key]*section // of locks that it holds, has lost and not unlocked, or waits for
}

// A Key is a lock for its owners: locks of one key may be held together by one owner, as the two
// sides of an RWMutex are.
type Key struct {
	Of   any // whose lock it is, and of which family: a pointer
	Name string
}

// section is what an owner has of one key.
type section struct {
	holds [2]*Hold      // of the exclusive side, and of the readers'; until the last unlock
	first *Call         // of the call that acquires; nil: there is none
	over  chan struct{} // closed when that call has ended, or has news; nil: nobody waits for it
}

// NewOwner returns an owner.
func NewOwner(minter any) *Owner { return &Owner{Minter: minter, sections: make(map[Key]*section)} }

// Entry is what an owner's call is to do.
type Entry uint8

const (
	Entered   Entry = iota // it has entered the hold of its owner
	Acquire                // acquire the lock, then call Settle
	Follow                 // another call of the owner acquires it: wait for that, then try again
	Lapsed                 // the owner has lost the hold, and must unlock it first
	Upgrading              // the owner only reads
)

func sideOf(reads bool) int {
	if reads {
		return readSide
	}
	return writeSide
}

// Enter begins a call of o, c, for a side of k; an Unlock of the lock is to end what it gets if due.
// It returns the hold that the call has entered, or that the owner has lost; or for a call that
// follows, a channel that is closed when there is news, and the Call.For of the one before it.
func (o *Owner) Enter(k Key, reads, due bool, c *Call) (e Entry, h *Hold, news <-chan struct{}, before any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.sections[k]
	if s == nil {
		s = new(section)
		o.sections[k] = s
	}
	if lost := s.lost(); lost != nil {
		return Lapsed, lost, nil, nil
	}
	if h := s.holds[sideOf(reads)]; h != nil && h.Enter(due) {
		return Entered, h, nil, nil
	}
	switch {
	case s.first != nil:
		if s.over == nil {
			s.over = make(chan struct{})
		}
		return Follow, nil, s.over, s.first.For
	case !reads && s.holds[1] != nil && s.holds[1].calls.Load() > 0:
		return Upgrading, nil, nil, nil
	}
	s.first = c
	return Acquire, nil, nil, nil
}

// Reenter is Enter of a hold that lives, nil if there is none.
func (o *Owner) Reenter(k Key, reads, due bool) *Hold {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.sections[k]
	if s == nil || s.lost() != nil {
		return nil
	}
	if h := s.holds[sideOf(reads)]; h != nil && h.Enter(due) {
		return h
	}
	return nil
}

// lost returns the hold that was lost and is still to be unlocked, nil if there is none.
func (s *section) lost() *Hold {
	for _, h := range s.holds {
		if h != nil && h.State() == Lost && h.calls.Load() > 0 {
			return h
		}
	}
	return nil
}

// Tell tells calls that follow another one that it has news: the lock is taken.
func (o *Owner) Tell(k Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.sections[k]; s != nil {
		s.tell()
	}
}

func (s *section) tell() {
	if s.over != nil {
		close(s.over)
		s.over = nil
	}
}

// Settle ends the call c, which was to acquire a side of k. If ok, it has got h, or nothing but the
// news that the owner has adopted the lock. Settle returns the hold that the call has now; it may be
// another one. If the owner has lost a hold, Settle returns that as lapsed, and the call has
// nothing.
func (o *Owner) Settle(k Key, reads, due bool, c *Call, h *Hold, ok bool) (has, lapsed *Hold) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.sections[k]
	s.first = nil
	s.tell()
	defer o.tidy(k, s)
	if lapsed = s.lost(); lapsed != nil || !ok {
		return nil, lapsed
	}
	side := &s.holds[sideOf(reads)]
	if *side != nil && (*side).Enter(due) {
		return *side, nil
	}
	if h != nil {
		*side = h
	}
	return h, nil
}

// Adopt gives o a hold of the exclusive side of k that was handed to it, whether it waits for that
// or not. If the owner holds the lock already, or has lost it, that hold is returned instead.
func (o *Owner) Adopt(k Key, h *Hold) (other *Hold) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.sections[k]
	if s == nil {
		s = new(section)
		o.sections[k] = s
	}
	for _, old := range s.holds {
		if old != nil && old.calls.Load() > 0 {
			return old
		}
	}
	s.holds[0] = h
	if s.first != nil {
		s.first.signal()
	}
	return nil
}

// Held returns the hold that o has on a side of k, live or lost and not unlocked; nil if it has
// none.
func (o *Owner) Held(k Key, reads bool) *Hold {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.sections[k]; s != nil {
		if h := s.holds[sideOf(reads)]; h != nil && h.calls.Load() > 0 {
			return h
		}
	}
	return nil
}

// Reads reports whether o reads k, or is about to.
func (o *Owner) Reads(k Key) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.sections[k]
	if s == nil {
		return false
	}
	h := s.holds[sideOf(true)]
	return h != nil && h.calls.Load() > 0 || s.first != nil && s.first.Reads
}

// Lapsed returns the hold of k that o has lost and must unlock first, nil if there is none.
func (o *Owner) Lapsed(k Key) *Hold {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.sections[k]; s != nil {
		return s.lost()
	}
	return nil
}

// Left forgets h, a hold of o on k, after its last unlock.
func (o *Owner) Left(k Key, h *Hold) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.sections[k]; s != nil {
		if side := sideOf(h.Reads); s.holds[side] == h {
			s.holds[side] = nil
		}
		o.tidy(k, s)
	}
}

// tidy forgets a section that is empty.
func (o *Owner) tidy(k Key, s *section) {
	if s.first == nil && s.holds == [2]*Hold{} {
		delete(o.sections, k)
	}
}

type ownerKey struct{}

// WithOwner returns ctx with owner o in it.
func WithOwner(ctx context.Context, o *Owner) context.Context {
	if OwnerOf(ctx) == o {
		return ctx
	}
	return context.WithValue(ctx, ownerKey{}, o)
}

// OwnerOf returns the owner in ctx, nil if there is none.
func OwnerOf(ctx context.Context) *Owner {
	o, _ := ctx.Value(ownerKey{}).(*Owner)
	return o
}
