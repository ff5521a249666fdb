package job

import "syscall"

// dieWithParent has the kernel kill the command when this process dies.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
