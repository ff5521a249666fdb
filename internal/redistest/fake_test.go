package redistest_test

import (
	"fmt"
	"runtime"
	"testing"
)

// fakeTB records how a test was stopped.
type fakeTB struct {
	testing.TB
	message string
}

func (f *fakeTB) Helper() {}

func (f *fakeTB) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
