package lease

import (
	"strings"
	"sync"
)

// A Registry finds the lease that a message names. A lease is in it from before its acquisition is
// sent until its release has been answered: a message may overtake either reply.
type Registry struct {
	mu   sync.Mutex // protects the following
	byID map[string]*Lease
}

// Name returns the hold id of l as messages have it.
func (l *Lease) Name() string { return strings.TrimSuffix(l.ID, ":write") }

// Add adds a lease, which Remove must follow.
func (r *Registry) Add(l *Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID == nil {
		r.byID = make(map[string]*Lease)
	}
	r.byID[l.Name()] = l
}

// Remove removes a lease.
func (r *Registry) Remove(l *Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byID, l.Name())
}

// Find returns the lease with that hold id, of the lock with that key; nil if there is none.
func (r *Registry) Find(id, key string) *Lease {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.byID[strings.TrimSuffix(id, ":write")]; l != nil && l.Keys.Name == key {
		return l
	}
	return nil
}

// Of returns the leases of the lock with that key; nil if there are more than most of all locks,
// since it looks at all of them.
func (r *Registry) Of(key string, most int) (ls []*Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.byID) > most {
		return nil
	}
	for _, l := range r.byID {
		if l.Keys.Name == key {
			ls = append(ls, l)
		}
	}
	return ls
}

// Len returns how many leases there are. It is for tests.
func (r *Registry) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.byID)
}
