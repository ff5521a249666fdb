package test

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"testing"
	"time"
)

// soon is when something that is not measured must have happened, on a slow machine too.
const soon = time.Minute

// program is the command under test.
var program string

func TestMain(m *testing.M) {
	// What a test starts has the default for a signal that is caught here. One that is ignored, as HUP
	// is under nohup, would stay ignored there.
	for _, s := range passedOn {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	os.Exit(build(m))
}

func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "relock")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "relock")
	args := []string{"build", "-o", program}
	if os.Getenv("RELOCK_RACE") != "" {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "..")...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	for _, name := range []string{"RELOCK_REDIS", "RELOCK_NAME", "RELOCK_TOKEN"} {
		os.Unsetenv(name)
	}
	return m.Run()
}
