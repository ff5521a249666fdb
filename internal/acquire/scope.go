package acquire

import (
	"context"

	"github.com/relock-go/relock/internal/local"
	"github.com/relock-go/relock/internal/wire"
)

// A Scope is the context of a section under a hold. It is found through contexts derived from it,
// the innermost first.
type Scope struct {
	context.Context
	Hold Holds // nil: of a type that this module does not know
}

// Holds is what a section is under.
type Holds interface {
	// Taken returns the locks that are held now. Of a group they are several.
	Taken() []Taken
}

// Taken is a lock that a section is under.
type Taken struct {
	Of   any    // the node whose lock it is, or the table of a Redlock
	Key  string // there
	Kind wire.Kind
	Hold *local.Hold
}

type scopeKey struct{}

// Value implements context.Context.
func (s *Scope) Value(key any) any {
	if key == (scopeKey{}) {
		return s
	}
	return s.Context.Value(key)
}

// ScopeOf returns the innermost scope that ctx comes from, nil if there is none.
func ScopeOf(ctx context.Context) *Scope {
	s, _ := ctx.Value(scopeKey{}).(*Scope)
	return s
}

// AroundAt returns the holds of a lock by the sections that ctx comes from.
func AroundAt(ctx context.Context, of any, key string) (around []Taken) {
	for s := ScopeOf(ctx); s != nil; s = ScopeOf(s.Context) {
		if s.Hold == nil {
			continue
		}
		for _, t := range s.Hold.Taken() {
			if t.Of == of && t.Key == key {
				around = append(around, t)
			}
		}
	}
	return around
}

// waitsForItself reports whether a Lock by o under ctx would wait for a section that ctx comes
// from, whose owner is another one. Readers do not wait for readers: see readAround.
func (l *Lock) waitsForItself(ctx context.Context, o *local.Owner) bool {
	var others []*local.Hold
	for _, t := range AroundAt(ctx, l.n, l.keys.Name) {
		switch same := t.Kind.Family() == l.kind.Family(); {
		case t.Kind.Joins() && l.kind.Joins():
		case t.Kind.Slots() != l.kind.Slots(): // it is told that this is no lock of its kind
		case same && o != nil && t.Hold.Owner == o: // it enters again
		default:
			others = addNew(others, t.Hold)
		}
	}
	return len(others) >= max(l.config.Permits, 1)
}

// readAround returns the hold of a section that ctx comes from and that reads what l would read, nil
// if there is none. Then l must not wait for a writer, who waits for that section.
func (l *Lock) readAround(ctx context.Context) *local.Hold {
	if !l.kind.Joins() {
		return nil
	}
	for _, t := range AroundAt(ctx, l.n, l.keys.Name) {
		if t.Kind.Joins() {
			return t.Hold
		}
	}
	return nil
}
