package job

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dieWithParent has the kernel kill the command when this process dies.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// adoptOrphans makes this process the parent of what the command leaves behind, so that it is
// known when the group is gone. Process 1 of a container often does not look after them.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// Die ends this process by a signal, without a core. It returns if the signal does not end it.
func Die(s syscall.Signal) {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	byDefault(s, func() {})
}

// stopGroup stops this process's group by a signal of job control, with this process and what is
// around it, such as a script, until somebody continues it. As the kernel has it, it does not if
// nobody could: no process outside of the group looks after it.
//
// Before any of them stops, this process has its signal already. So whoever sees that one has
// stopped, and continues the group, takes the signal away: this process does not stop after that.
func (*supervisor) stopGroup(by syscall.Signal) {
	byDefault(by, func() { _ = syscall.Kill(0, by) })
}

// byDefault sends this process a signal that it does not catch meanwhile, and calls a function
// while the signal waits. The signal has had its effect when byDefault returns.
func byDefault(s syscall.Signal, while func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, dflt sigaction
	if sigact(s, &dflt, &before) {
		defer sigact(s, &before, nil)
	}
	var set unix.Sigset_t
	set.Val[0] = 1 << (s - 1)
	_ = unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil)
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), s)
	while()
	_ = unix.PthreadSigmask(unix.SIG_UNBLOCK, &set, nil)
}

// sigaction has room for the kernel's, whose fields differ. All zero it is the default action.
type sigaction [16]uintptr

// sigact sets the action of a signal, of which package os/signal knows Go's handler only.
func sigact(s syscall.Signal, to, before *sigaction) bool {
	size := uintptr(8) // of a set of signals
	if runtime.GOARCH == "mips" || runtime.GOARCH == "mipsle" ||
		runtime.GOARCH == "mips64" || runtime.GOARCH == "mips64le" {
		size = 16
	}
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s),
		uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(before)), size, 0, 0)
	return errno == 0
}
