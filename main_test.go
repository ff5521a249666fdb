package relock_test

import (
	"testing"

	"github.com/relock-go/relock/internal/redistest"
	"go.uber.org/goleak"
)

// roles are the parts that a test may run in a process of its own, by name; see
// redistest.Child. The init functions of the test files add to it.
var roles = map[string]func(args []string){}

func TestMain(m *testing.M) {
	redistest.RunChild(roles)
	goleak.VerifyTestMain(pulsed{m}, redistest.Leaks()...)
}
