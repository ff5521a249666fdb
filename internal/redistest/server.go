package redistest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	readyWithin   = 30 * time.Second // from start to the first PONG, with an append-only file to load
	restartWithin = 10 * time.Second // for the old port to be free again
	portAttempts  = 20               // ports tried by Launch
)

// errPortTaken is returned by run when another process listens on the port.
var errPortTaken = errors.New("redistest: port taken")

// A Server is one redis-server process on a port of 127.0.0.1. It keeps its
// port, directory and arguments over [Server.Restart].
//
// It is made by [Start] or [Launch], and is safe for concurrent use. Its methods
// fail as described in the package documentation.
type Server struct {
	binary   string
	argv     []string
	dir      string
	port     int
	password string     // what --requirepass says; empty for none
	tb       testing.TB // the test it belongs to, or noTest

	mu   sync.Mutex              // held while the process is started or killed
	proc atomic.Pointer[process] // the latest process; written with mu held
}

// Launch starts redis-server in dir and returns when it answers commands. It
// listens on a free port of 127.0.0.1, without persistence, and with args
// appended to its command line, where later options win. A password must be
// given as two arguments, "--requirepass" and the password.
//
// Replicas are synchronised by way of a file: after a diskless synchronisation a
// primary reports a replica as online for up to a second before it streams to it.
//
// Launch blocks for at most 30 seconds. It fails with an error that satisfies
// errors.Is(err, exec.ErrNotFound) when redis-server is not installed, and with
// the end of the server's log when the server exits. The caller must [Server.Close] it.
func Launch(dir string, args ...string) (*Server, error) {
	binary, err := lookPath()
	if err != nil {
		return nil, err
	}
	v, err := versionOf(binary)
	if err != nil {
		return nil, err
	}
	if !v.before(version{7, 0}) { // before, DEBUG was always enabled
		args = slices.Concat([]string{"--enable-debug-command", "local"}, args)
	}
	return launch(dir, func(port int) ([]string, error) {
		return slices.Concat([]string{
			"--port", strconv.Itoa(port),
			"--bind", "127.0.0.1",
			"--save", "",
			"--appendonly", "no",
			"--dir", dir,
			"--loglevel", "warning",
			"--repl-diskless-sync", "no",
		}, args), nil
	})
}

// launch starts redis-server with the arguments that command returns for a port,
// and tries another port when that one is taken.
func launch(dir string, command func(port int) ([]string, error)) (*Server, error) {
	binary, err := lookPath()
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		argv, err := command(port)
		if err != nil {
			return nil, err
		}
		s := &Server{binary: binary, argv: argv, dir: dir, port: port, password: option(argv, "--requirepass"), tb: noTest{}}
		s.mu.Lock()
		err = s.run()
		s.mu.Unlock()
		if err == nil {
			return s, nil
		}
		if !errors.Is(err, errPortTaken) || attempt == portAttempts {
			return nil, err
		}
	}
}

// option returns the argument after the last one that equals name.
func option(argv []string, name string) (value string) {
	for i := 0; i+1 < len(argv); i++ {
		if argv[i] == name {
			value = argv[i+1]
		}
	}
	return value
}

// run starts the process and waits until it answers. The caller holds mu.
func (s *Server) run() error {
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("redistest: log: %w", err)
	}
	defer log.Close() // the child has its own copy
	start, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("redistest: log: %w", err)
	}
	cmd := exec.Command(s.binary, s.argv...)
	cmd.Dir = s.dir
	cmd.Stdout, cmd.Stderr = log, log
	p, err := startProcess(cmd)
	if err != nil {
		return err
	}
	ready := poll(readyWithin, func() bool { return !p.running() || s.ready(p.pid()) })
	switch {
	case ready && p.running():
		s.proc.Store(p)
		return nil
	case ready:
		err = fmt.Errorf("redistest: redis-server exited: %w", p.err)
	default:
		p.kill()
		err = fmt.Errorf("redistest: redis-server did not answer within %v", readyWithin)
	}
	output := s.logTail(start)
	if strings.Contains(output, "already in use") {
		err = errPortTaken
	}
	return fmt.Errorf("%w\n%s", err, output)
}

// logFile returns the name of the file that takes the server's output.
func (s *Server) logFile() string { return filepath.Join(s.dir, fmt.Sprintf("redis-%d.log", s.port)) }

// logTail returns the server's output from an offset on, and no more than its last 4 KiB.
func (s *Server) logTail(from int64) string {
	b, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	b = b[min(from, int64(len(b))):]
	return string(b[max(0, len(b)-4<<10):])
}

// Addr returns the host and port that clients dial. It stays the same for life.
func (s *Server) Addr() string { return address(s.port) }

// PID returns the id of the latest process, also when it has been killed.
func (s *Server) PID() int { return s.proc.Load().pid() }

// Running reports whether the process exists. A frozen one does.
func (s *Server) Running() bool { return s.proc.Load().running() }

// Freeze stops the process with SIGSTOP: the kernel still accepts connections and
// bytes for it, and it answers when it is thawed. Freeze returns once every
// thread has stopped. It fails when the server is not running.
func (s *Server) Freeze() error {
	s.tb.Helper()
	return report(s.tb, s.proc.Load().freeze())
}

// Thaw lets a frozen process go on. It fails when the server is not running.
func (s *Server) Thaw() error {
	s.tb.Helper()
	return report(s.tb, s.proc.Load().thaw())
}

// Kill ends the process with SIGKILL, frozen or not, and returns once it is
// gone and its port is free. It does nothing when the server is not running.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proc.Load().kill()
}

// Restart kills the process if it runs and starts it again with the same port,
// directory and arguments: it has the data that its persistence options kept,
// by default none. Restart returns when the server answers commands and has
// loaded its data. It blocks for at most 40 seconds.
func (s *Server) Restart() error {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proc.Load().kill()
	var err error
	poll(restartWithin, func() bool {
		err = s.run()
		return !errors.Is(err, errPortTaken)
	})
	return report(s.tb, err)
}

// Close kills the process. The server may be restarted afterwards, and must then
// be closed again. A server that was made by [Start] is closed by its test.
func (s *Server) Close() { s.Kill() }
