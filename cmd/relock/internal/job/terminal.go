package job

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// terminal is the one that controls this process, if there is one. Of the groups of a session
// only the one in the foreground may read from it.
type terminal struct {
	file  *os.File // nil if there is none
	own   int      // this process's group
	given bool     // the command has it, as far as this process is concerned
}

func openTerminal() *terminal {
	t := &terminal{own: unix.Getpgrp()}
	if f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0); err == nil {
		t.file = f
	}
	return t
}

func (t *terminal) close() {
	if t.file != nil {
		_ = t.file.Close()
	}
}

func (t *terminal) fd() int { return int(t.file.Fd()) }

// foreground reports whether this process's group has the terminal.
func (t *terminal) foreground() bool { return t.holder() == t.own }

// passed reports whether the command has the terminal, or passed it on: its keys are for this
// process's group, too.
func (t *terminal) passed() bool { return t.given && !t.foreground() }

// holder returns the group in the foreground, -1 if that is not known.
func (t *terminal) holder() int {
	if t.file == nil {
		return -1
	}
	group, err := unix.IoctlGetInt(t.fd(), unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return group
}

// interactive reports whether the user faces the command: then it starts in the foreground.
// In a pipeline another process of this group may read from the terminal, such as a pager.
func (t *terminal) interactive() bool {
	return term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())) && t.foreground()
}

// ignoreBackground lets this process write to the terminal and pass it on from the background.
// Call it after the command has started, which would inherit it.
func (t *terminal) ignoreBackground() { signal.Ignore(syscall.SIGTTOU) }

// give passes the terminal on to the command's group.
func (t *terminal) give(group int) {
	t.given = unix.IoctlSetPointerInt(t.fd(), unix.TIOCSPGRP, group) == nil
}

// take takes the terminal back if the command's group has it. A group of 0 is that of a command
// that could not be started, whichever it was.
func (t *terminal) take(group int) {
	if t.file != nil && (t.given && group == 0 || t.holder() == group) {
		t.give(t.own)
	}
	t.given = false
}
