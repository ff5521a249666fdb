package redistest_test

import (
	"bufio"
	"fmt"
	"os"
	"testing"

	"github.com/relock-go/relock/internal/redistest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	redistest.RunChild(map[string]func([]string){
		"echo":  echo,
		"serve": serve,
	})
	goleak.VerifyTestMain(m, redistest.Leaks()...)
}

// echo prints its arguments, then every line it reads; "exit" ends it.
func echo(args []string) {
	fmt.Fprintln(os.Stderr, "this line belongs in the test log")
	fmt.Println("args", args)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() && lines.Text() != "exit" {
		fmt.Println("echo", lines.Text())
	}
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
