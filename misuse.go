package relock

import (
	"errors"
	"reflect"
)

// noCopy makes go vet report copies of the types that contain it.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

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
