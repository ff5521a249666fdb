package relock

import (
	"context"
	"errors"
	"reflect"
)

// noCopy makes go vet report copies of the types that contain it.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// checkContext panics if ctx is nil, like the functions of package context.
func checkContext(ctx context.Context) {
	if ctx == nil {
		panic("relock: the context is nil; pass context.Background() where there is none")
	}
}

// on returns l for a method with ctx, which must not be nil.
func on[L any](ctx context.Context, l L) L {
	checkContext(ctx)
	return l
}

var (
	errNilLocker = errors.New("the Locker is nil")
	errNilFunc   = errors.New("the function is nil")
)

// isNil reports whether an interface is nil, or holds a nil pointer.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}
