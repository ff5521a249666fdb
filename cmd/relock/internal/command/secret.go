package command

import (
	"os"
	"strings"
	"syscall"

	"github.com/relock-go/relock/cmd/relock/internal/connect"
)

// hidden is the variable that has the address if an argument had a password.
const hidden = "RELOCK_REDIS_HIDDEN"

// hidePassword starts this program again if an argument has a password, which everybody could
// read in the process list: the address then is in the environment, which only the user can
// read. The process stays the same one.
func hidePassword() error {
	args, address := masked(os.Args)
	if address == "" {
		return nil
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(program, args, append(withoutHidden(os.Environ()), hidden+"="+address))
}

// masked returns the arguments with the password of --redis masked, and the address if it had
// one.
func masked(args []string) (safe []string, address string) {
	safe = append(safe, args...)
	mask := func(i int, prefix, value string) {
		if m, had := connect.Mask(value); had && m != value {
			safe[i], address = prefix+m, value
		}
	}
	for i := 1; i < len(safe) && safe[i] != "--"; i++ {
		const flag = "--redis"
		if value, ok := strings.CutPrefix(safe[i], flag+"="); ok {
			mask(i, flag+"=", value)
		} else if safe[i] == flag && i+1 < len(safe) {
			i++
			mask(i, "", safe[i])
		}
	}
	return safe, address
}

// withoutHidden returns the environment without the hidden address, which is for this program
// alone.
func withoutHidden(env []string) []string {
	var kept []string
	for _, e := range env {
		if !strings.HasPrefix(e, hidden+"=") {
			kept = append(kept, e)
		}
	}
	return kept
}
