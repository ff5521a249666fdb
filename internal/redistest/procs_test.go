package redistest_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/relock-go/relock/internal/redistest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	redistest.RunChild(map[string]func([]string){"serve": serve})
	goleak.VerifyTestMain(m, redistest.Leaks()...)
}

// serve starts a server in the given directory and prints its address.
func serve(args []string) {
	s, err := redistest.Launch(args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("addr", s.Addr())
	select {}
}
