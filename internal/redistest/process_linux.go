package redistest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// dieWithParent makes the kernel kill the child when the thread that started it
// ends, and so when this process dies in whatever way.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// stopped reports whether every thread of the process has stopped.
func stopped(pid int) bool {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(stats) == 0 {
		return false
	}
	for _, name := range stats {
		stat, err := os.ReadFile(name)
		if err != nil {
			return false
		}
		// "pid (comm) state …", where comm may hold anything, brackets too.
		_, state, ok := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(" "))
		if !ok || len(state) == 0 || state[0] != 'T' {
			return false
		}
	}
	return true
}
