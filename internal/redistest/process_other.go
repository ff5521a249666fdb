//go:build unix && !linux

package redistest

import (
	"os/exec"
	"strconv"
	"strings"
)

// dieWithParent does nothing: only Linux can tie a child's life to its parent's.
func dieWithParent(*exec.Cmd) {}

// stopped reports whether the process has stopped.
func stopped(pid int) bool {
	state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.HasPrefix(strings.TrimSpace(string(state)), "T")
}
