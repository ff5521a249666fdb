package redistest

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
)

// Servers listen below the range from which the usual kernels take the local
// port of an outgoing connection (32768 and up). Otherwise a client that dials a
// server while it is down may be given that very port: it connects to itself,
// and the server can no longer be restarted. The bus of a cluster node is its
// port plus 10000, and stays below that range too.
const (
	firstPort = 10_000
	ranges    = 40
	ports     = 250 // of each range
	busOffset = 10_000
)

// A process has a range of its own: it listens on the first port of it for as long as it lives. So a server
// that is down for a moment does not lose its port to a process beside it, whose sentinel
// or server would be taken for it. If all ranges are taken, the process shares one.
var ownRange = sync.OnceValue(func() *portRange {
	start := rand.IntN(ranges)
	for i := range ranges {
		first := firstPort + (start+i)%ranges*ports
		if l, err := net.Listen("tcp", address(first)); err == nil {
			return &portRange{first: first, guard: l}
		}
	}
	return &portRange{first: firstPort + start*ports}
})

type portRange struct {
	first int
	guard net.Listener // on first; nil: there was none
	taken atomic.Int64 // how many ports were handed out
}

var errNoPort = errors.New("redistest: no free port")

// listen listens on a port of 127.0.0.1 that was free together with its bus port.
func listen() (net.Listener, error) {
	own := ownRange()
	for range ports {
		port := own.first + 1 + int(own.taken.Add(1)%(ports-1))
		bus, err := net.Listen("tcp", address(port+busOffset))
		if err != nil {
			continue
		}
		bus.Close()
		if l, err := net.Listen("tcp", address(port)); err == nil {
			return l, nil
		}
	}
	return nil, errNoPort
}

// freePort returns a port that was free a moment ago.
func freePort() (int, error) {
	l, err := listen()
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// address returns the host and port to dial.
func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
