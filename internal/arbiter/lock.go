package arbiter

import "sync"

// A Lock is one side of the lock of a name in a table. Table.Init makes it usable; it does not
// change after that.
type Lock[L comparable] struct {
	lockSide
	shard *shard[L] // of the name
}

// lockSide is one side of a lock.
type lockSide struct {
	guard *sync.Mutex // of the lock's shard
	name  string
	side  Side
}

// Init makes l one side of the lock of a name.
func (t *Table[L]) Init(l *Lock[L], name string, side Side) {
	l.shard = t.shard(name)
	l.lockSide = lockSide{&l.shard.Mutex, name, side}
}

// Name returns the name of the lock.
func (l *Lock[L]) Name() string { return l.name }

// lostOf returns the hold on this side that o lost and has not unlocked, nil if there is none.
func (l *Lock[L]) lostOf(o *Owner) *Hold[L] {
	h, _ := o.lostOn(l.lockSide).(*Hold[L])
	return h
}

// LossOf returns why o has lost a hold, on either side, which it must unlock first; nil if there is
// none.
func (l *Lock[L]) LossOf(o *Owner) error {
	for _, side := range []Side{Write, Read} {
		if h, _ := o.lostOn(lockSide{l.guard, l.name, side}).(*Hold[L]); h != nil {
			return h.Cause()
		}
	}
	return nil
}

// MustUnlockFirst reports whether a call of o may not have the lock now, since a hold that it lost,
// on either side, awaits its unlock: the section that the loss has broken still runs.
func (l *Lock[L]) MustUnlockFirst(o *Owner) bool {
	return o.lostOn(lockSide{l.guard, l.name, Write}) != nil || o.lostOn(lockSide{l.guard, l.name, Read}) != nil
}
