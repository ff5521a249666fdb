package test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

const ctrlBackslash = "\x1c"

// script writes a shell script, and returns its path.
func script(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o700))
	return path
}

// What a signal leaves of the command's group has the grace under the lock, whoever has sent the
// signal and however the command itself has ended.
func TestLockIsHeldWhileTheGroupCleansUp(t *testing.T) {
	s := server(t)
	const cleans = `sh -c 'trap "echo cle\"\"ans; sleep 1.5; exit" INT QUIT TERM
		echo cleaner $$; while :; do sleep 0.02; done'; :`
	for name, c := range map[string]struct {
		script string
		end    func(x *terminal, command int)
	}{
		"Ctrl-C":  {cleans, func(x *terminal, _ int) { x.types(ctrlC, "cleans") }},
		"Ctrl-\\": {cleans, func(x *terminal, _ int) { x.types(ctrlBackslash, "cleans") }},
		"Ctrl-C, and the command succeeds": {
			`sh -c 'echo cleaner $$; while ! [ -e $0.told ]; do sleep 0.02; done; sleep 1.5' $0 &
			trap "touch $0.told; echo cle''ans; exit 0" INT; wait`,
			func(x *terminal, _ int) { x.types(ctrlC, "cleans") },
		},
		"TERM to the group": {cleans, func(x *terminal, group int) {
			require.NoError(t, syscall.Kill(-group, syscall.SIGTERM))
			x.shows("cleans")
		}},
		"KILL of the command": {cleans, func(x *terminal, command int) {
			require.NoError(t, syscall.Kill(command, syscall.SIGKILL))
			x.shows("cleans")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lock := "job " + name
			x := shell(t, s, "--noediting")
			path := script(t, "job", "#!/bin/sh\necho command $$\n"+c.script)
			x.types(fmt.Sprintf("relock run --grace 1m '%s' -- %s\n", lock, path), "cleaner ")
			command, cleaner := x.number("command"), x.number("cleaner")
			next := run(t, s, sh("-v", lock, fmt.Sprintf(
				`case $(cut -d " " -f 3 /proc/%d/stat) in ""|Z) echo alone;; *) echo overlap; esac`, cleaner))...)
			next.warns("waiting")
			c.end(x, command)
			require.Equal(t, "alone\n", next.ends(0))
			x.shows("PROMPT ")
		})
	}
}

// A key ends the script and the loop around relock, as it would without relock: the shell sees that
// relock has died of the signal, and a script gets it as well.
func TestCtrlCEndsTheScriptAroundRelock(t *testing.T) {
	s := server(t)
	t.Cleanup(hold(t, kit.NewSession(t, s).Mutex("taken")))
	const ready = `sh -c 'echo re""ady; exec sleep 100'`
	for name, lines := range map[string]string{
		"a list":           "relock run job -- " + ready + "; echo went on",
		"a loop":           "for i in 1 2 3; do relock run job -- " + ready + "; echo went on; done",
		"a nested command": "relock run job -- relock run inner -- " + ready + "; echo went on",
		"a nested script":  `relock run job -- sh -c "relock run inner -- ` + strings.ReplaceAll(ready, `"`, `\"`) + `; echo went on"`,
		"a wait":           "relock run -v taken -- true; echo went on",
	} {
		for _, by := range []string{"bash", "sh", "the prompt"} {
			t.Run(name+" by "+by, func(t *testing.T) {
				t.Parallel()
				x := shell(t, s, "--noediting")
				line := strings.NewReplacer("job", "job "+by, "went", `we""nt`).Replace(lines)
				line = strings.ReplaceAll(line, "job "+by, "'job "+name+by+"'")
				line = strings.ReplaceAll(line, "inner", "'inner "+name+by+"'")
				if by != "the prompt" {
					line = by + " " + script(t, "script", line+"\n")
				}
				x.types(line+"\n", map[bool]string{false: "ready", true: "waiting"}[name == "a wait"])
				x.types(ctrlC, "PROMPT ")
				x.types("echo status $?\n", "status 130")
				require.NotContains(t, x.text(), "went on")
			})
		}
	}
}

// A command that takes the key for something else does not end the script: bash asks how it ended.
func TestCtrlCDoesNotEndTheScriptOfACommandThatGoesOn(t *testing.T) {
	s := server(t)
	x := shell(t, s, "--noediting")
	path := script(t, "script", `relock run job -- bash -c 'trap "echo no""ticed; exit 0" INT; echo re""ady; while :; do sleep 0.02; done'
echo we""nt on`)
	x.types("bash "+path+"\n", "ready")
	x.types(ctrlC, "noticed", "went on", "PROMPT ")
}

// The parent is told by what the command died, unless relock itself has ended it.
func TestRelockDiesAsItsCommand(t *testing.T) {
	s := server(t)
	defer hold(t, kit.NewSession(t, s).Mutex("taken"))()
	for name, sig := range passedOn {
		r := run(t, s, sh("", "job "+name, "echo ready; exec sleep 100")...)
		r.says("ready")
		r.signal(sig)
		r.ends(128 + int(sig))
		require.Equal(t, sig, r.diedOf(), name)
		waits := run(t, s, "run", "-v", "taken", "--", "true")
		waits.warns("waiting")
		waits.signal(sig)
		waits.ends(128 + int(sig))
		require.Equal(t, sig, waits.diedOf(), "while it waited: %s", name)
	}
	for name, sig := range map[string]syscall.Signal{"SEGV": syscall.SIGSEGV, "KILL": syscall.SIGKILL, "PIPE": syscall.SIGPIPE} {
		r := run(t, s, sh("", "job", "ulimit -c 0; kill -"+name+" $$")...)
		r.ends(128 + int(sig))
		require.Equal(t, sig, r.diedOf(), name)
	}
	lost := run(t, s, sh("", "job", "echo ready; exec sleep 100")...)
	lost.says("ready")
	run(t, s, "unlock", "--yes", "job").ends(0)
	lost.ends(143)
	require.Zero(t, lost.diedOf(), "systemd takes TERM for success")
}

// Ctrl-Z stops all that the shell waits for, however deep the command is, and fg continues it.
func TestCtrlZStopsWhatIsAroundRelock(t *testing.T) {
	s := server(t)
	const reads = `sh -c 'echo re""ady; while read line && [ $line != end ]; do echo g""ot $line; done'`
	for name, line := range map[string]string{
		"nested":   "relock run outer -- relock run inner -- " + reads,
		"deep":     "relock run a -- relock run b -- relock run c -- " + reads,
		"pipeline": "relock run x -- relock run y -- " + reads + " | cat",
		"script":   "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := shell(t, s, "--noediting")
			if line == "" {
				line = "sh " + script(t, "script", "relock run s -- "+reads+"\necho we\"\"nt on\n")
			}
			x.types(line+"\n", "ready")
			for range 2 {
				x.types(ctrlZ, "Stopped", "PROMPT ")
				x.types("echo al\"\"ive\n", "alive", "PROMPT ")
				x.types("fg\none\n", "got one")
			}
			x.types("end\n")
			if name == "script" {
				x.shows("went on")
			}
			x.shows("PROMPT ")
			x.quits("exit 0\n", 0)
		})
	}
}

// A shell may continue a script as soon as it has stopped. relock in it does not stop after that,
// when nobody would continue it.
func TestCtrlZAndFgAtOnce(t *testing.T) {
	s := server(t)
	const times = 20
	x := shell(t, s, "--noediting")
	path := script(t, "script", `relock run job -- sh -c '
	echo re""ady
	while read line && [ $line != end ]; do echo g""ot $line; done'
echo we""nt on
`)
	x.types("sh "+path+strings.Repeat("; fg", times)+"\n", "ready")
	for i := range times {
		x.types(ctrlZ, "Stopped", path)
		x.types(fmt.Sprintf("%d\n", i), fmt.Sprintf("got %d", i))
	}
	x.types("end\n", "went on", "PROMPT ")
}

// Ctrl-Z is not lost if the command has asked for the terminal, and relock does not know that yet.
func TestCtrlZWhileTheCommandAsksForTheTerminal(t *testing.T) {
	s := server(t)
	x := shell(t, s, "--noediting")
	asks := filepath.Join(t.TempDir(), "asks")
	path := script(t, "job", fmt.Sprintf(
		`echo command $$; while ! [ -e %s ]; do sleep 0.02; done; read line; echo g""ot $line`, asks))
	x.types("relock run job -- sh "+path+" | cat\n", "command ")
	command := x.number("command")
	thaw := freeze(t, parent(t, command)) // it waits for the command to stop
	require.NoError(t, os.WriteFile(asks, nil, 0o600))
	redistest.Eventually(t, soon, "the stop", func() bool { return status(command, "State") == "T" })
	x.types(ctrlZ)
	redistest.Eventually(t, soon, "the key's signal", func() bool {
		pending, _ := strconv.ParseUint(status(command, "ShdPnd"), 16, 64)
		return pending&(1<<(syscall.SIGTSTP-1)) != 0
	})
	thaw()
	x.shows("Stopped", "PROMPT ")
	x.types("fg\none\n", "got one", "PROMPT ")
}

// parent returns the thread that has started a process.
func parent(t testing.TB, pid int) int {
	t.Helper()
	threads, err := filepath.Glob("/proc/" + status(pid, "PPid") + "/task/*")
	require.NoError(t, err)
	for _, thread := range threads {
		children, err := os.ReadFile(thread + "/children")
		if errors.Is(err, os.ErrNotExist) {
			lacks(t, "children of threads in /proc")
		}
		if slices.Contains(strings.Fields(string(children)), strconv.Itoa(pid)) {
			id, err := strconv.Atoi(filepath.Base(thread))
			require.NoError(t, err)
			return id
		}
	}
	t.Fatal("no thread has started it")
	return 0
}

// freeze keeps a thread of another process from running, until the same goroutine calls the
// function that it returns.
func freeze(t testing.TB, thread int) (thaw func()) {
	t.Helper()
	runtime.LockOSThread() // the kernel lets nobody else thaw it; it thaws when this one ends
	if err := unix.PtraceSeize(thread); errors.Is(err, unix.EPERM) {
		lacks(t, "the right to trace a process")
	} else {
		require.NoError(t, err)
	}
	require.NoError(t, unix.PtraceInterrupt(thread))
	_, err := unix.Wait4(thread, nil, unix.WALL, nil)
	require.NoError(t, err)
	return func() {
		require.NoError(t, unix.PtraceDetach(thread))
		runtime.UnlockOSThread()
	}
}

// A shell under relock stops itself by STOP when it is suspended.
func TestSuspendOfAShellUnderRelock(t *testing.T) {
	s := server(t)
	for name, line := range map[string]string{
		"":       "relock run a -- bash --noediting --norc -i",
		"nested": "relock run b -- relock run c -- bash --noediting --norc -i",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := shell(t, s, "--noediting")
			x.types(line+"\n", "PROMPT ")
			x.types("PS1='IN''NER '\n", "INNER ")
			x.types("suspend\n", "Stopped", "PROMPT ")
			x.types("fg\n", "relock run")
			x.types("echo ba\"\"ck\n", "back", "INNER ")
			x.types("exit 0\n", "PROMPT ")
			x.quits("exit 0\n", 0)
		})
	}
}

// relock that dies kills its command, also one that the terminal has stopped.
func TestStoppedGroupEndsWhenRelockIsKilled(t *testing.T) {
	s := server(t)
	r := run(t, s, sh("", "job", `echo group $$; sh -c 'echo child $$; while :; do sleep 0.02; done'; :`)...)
	group, child := r.number("group"), r.number("child")
	require.NoError(t, syscall.Kill(-group, syscall.SIGSTOP))
	redistest.Eventually(t, soon, "the stop", func() bool { return status(child, "State") == "T" })
	r.signal(syscall.SIGKILL)
	redistest.Eventually(t, soon, "its end", func() bool { return !alive(group) && !alive(child) })
}

// What execvp runs by sh is run by sh.
func TestScriptWithoutAnInterpreterLineIsRunBySh(t *testing.T) {
	s := server(t)
	path := script(t, "job", "echo \"ran $1 $2\"\nexit 3\n")
	require.Equal(t, "ran a b c\n", run(t, s, "run", "job", "--", path, "a", "b c").ends(3))
	cmd := command(s.Addr(), "run", "job", "--", "job", "a")
	cmd.Env = append(cmd.Env, "PATH=.:"+os.Getenv("PATH"))
	cmd.Dir = filepath.Dir(path)
	require.Equal(t, "ran a \n", start(t, cmd).ends(3), "$PATH has the current directory")
}

// installed returns relock at a path of its own.
func installed(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(program)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "relock")
	require.NoError(t, os.WriteFile(path, text, 0o700))
	return path
}

// An upgrade while relock waits does not keep the command from running.
func TestProgramMayBeReplacedWhileItWaits(t *testing.T) {
	s := server(t)
	for name, replace := range map[string]func(path string) error{
		"removed": os.Remove,
		"replaced": func(path string) error {
			return errorsOf(os.Remove(path), os.WriteFile(path, []byte("#!/bin/false\n"), 0o700))
		},
	} {
		release := hold(t, kit.NewSession(t, s).Mutex(name))
		cmd := command(s.Addr(), "run", "-v", name, "--", "echo", "ran")
		cmd.Path = installed(t)
		r := start(t, cmd)
		r.warns("waiting")
		require.NoError(t, replace(cmd.Path))
		release()
		require.Equal(t, "ran\n", r.ends(0), name)
	}
}

func errorsOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestCommandRunsWithoutProc(t *testing.T) {
	s := server(t)
	root := t.TempDir() // it has the program, /dev/null, and nothing else
	build := exec.Command("go", "build", "-o", filepath.Join(root, "relock"), "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.Mkdir(filepath.Join(root, "dev"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(root, os.DevNull), nil, 0o600))
	cmd := command(s.Addr(), "run", "job", "--", "/relock", "version")
	cmd.Path, cmd.Args[0], cmd.Dir = "/relock", "/relock", "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	if id := os.Getuid(); id != 0 {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: id, Size: 1}}
		probe := exec.Command("true")
		probe.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: cmd.SysProcAttr.UidMappings}
		if err := probe.Run(); err != nil {
			lacks(t, "the right to a root of its own, or to a namespace: "+err.Error())
		}
	}
	require.Contains(t, start(t, cmd).ends(0), "relock ")
}

// A system that is short of what relock needs for itself says nothing of the command.
func TestTroubleOfItsOwnHasItsOwnStatus(t *testing.T) {
	s := server(t)
	for files := 4; ; files++ { // until the Go runtime has enough, and the guard not
		cmd := command(s.Addr())
		cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `ulimit -n "$1"; shift; exec "$@"`, "sh",
			strconv.Itoa(files), program, "run", "job", "--", "true"}
		out, err := cmd.CombinedOutput()
		require.Error(t, err, "%d files are enough for all", files)
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		if exit.ExitCode() == 71 {
			require.Contains(t, string(out), "cannot start the guard: ")
			require.Contains(t, string(out), "too many open files")
			return
		}
	}
}
