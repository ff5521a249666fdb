package memredis

import (
	"bufio"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// A Server is a Redis in memory. Keys expire as its clock runs, which is virtual in a bubble. It
// is safe for concurrent use.
type Server struct {
	// Mini is the server without its network. Its Start must not be called, and StepClock goes
	// before its SetTime.
	Mini *miniredis.Miniredis

	before    func()       // called before each script; may be nil
	published func(string) // called with what scripts publish; may be nil
	command   atomic.Pointer[func(verb string, args []string) string]

	mu        sync.Mutex // protects following
	processes []*Process
	closed    bool
	failures  []*failure // in force

	clock   sync.Mutex    // protects following, and Mini.SetTime; never locked together with another
	offset  time.Duration // of the server's clock
	stepped bool          // Mini must be told the time
}

// New returns an empty server. Close ends its goroutines.
func New() (*Server, error) {
	s := &Server{Mini: miniredis.NewMiniRedis()}
	s.Mini.ClockTTL(true)
	conn, err := s.Mini.Dial() // starts it without a listener
	if err != nil {
		return nil, err
	}
	s.Mini.Server().SetPreHook(s.fail)
	return s, conn.Close()
}

// Close closes every connection and waits for the server to end. Dialing fails from then on.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for _, p := range s.all() {
		p.Heal() // ends what waits for a connection
	}
	s.Mini.Close()
}

func (s *Server) all() []*Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.processes)
}

// serve serves a connection until it is closed.
func (s *Server) serve(conn net.Conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	s.Mini.Server().ServeConn(conn)
	return nil
}

// Restart breaks every connection. The server forgets scripts, and with keep false its keys.
func (s *Server) Restart(keep bool) {
	for _, p := range s.all() {
		p.reset()
	}
	s.FlushScripts()
	if !keep {
		s.Mini.FlushAll()
	}
}

// do has the server execute a command whose reply does not matter.
func (s *Server) do(command ...string) {
	s.Mini.Server().Dispatch(server.NewPeer(bufio.NewWriter(io.Discard)), command)
}

// StepClock makes the server's clock jump. Expiry is a point in time of that clock: a jump ahead
// ends leases early, a jump back prolongs them.
func (s *Server) StepClock(d time.Duration) {
	s.clock.Lock()
	defer s.clock.Unlock()
	s.Mini.DB(0) // counts the time up to now against every time to live
	s.offset, s.stepped = s.offset+d, true
	s.Mini.SetTime(time.Now().Add(s.offset))
	if d < 0 {
		// miniredis stores what is left to live, and leaves that alone.
		s.Mini.FastForward(d)
	}
}

// tick tells miniredis the time, whose clock stands still once it has been set.
func (s *Server) tick() {
	s.clock.Lock()
	defer s.clock.Unlock()
	if s.stepped {
		s.Mini.SetTime(time.Now().Add(s.offset))
	}
}
