package redistest

import "testing"

// report marks the test as failed by err, if there is one, and returns err.
func report(tb testing.TB, err error) error {
	tb.Helper()
	if err != nil {
		tb.Error(err)
	}
	return err
}

// noTest is the test of a value that belongs to none. It has no other methods.
type noTest struct{ testing.TB }

func (noTest) Helper() {}

func (noTest) Error(...any) {}
