package interop_test

import (
	"os"
	"testing"

	"github.com/relock-go/relock/internal/redistest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	redistest.RunChild(map[string]func([]string){"go": goPeer, "java": javaPeer})
	report.w = os.Stdout
	goleak.VerifyTestMain(m, append(redistest.Leaks(), goleak.Cleanup(func(code int) {
		report.print()
		os.Exit(code)
	}))...)
}
