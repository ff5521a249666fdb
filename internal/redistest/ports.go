package redistest

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
)

// Servers listen below the range from which the usual kernels take the local
// port of an outgoing connection (32768 and up). Otherwise a client that dials a
// server while it is down may be given that very port: it connects to itself,
// and the server can no longer be restarted. The bus of a cluster node is its
// port plus 10000, and stays below that range too.
const (
	firstPort = 10_000
	ports     = 10_000
	busOffset = 10_000
)

// portsTaken counts ports handed out by this process, from a random start, so that
// test processes which run side by side seldom try the same ones and a server that is
// down for a moment does not lose its port to its neighbour.
var portsTaken atomic.Int64

func init() { portsTaken.Store(rand.Int64N(ports)) }

var errNoPort = errors.New("redistest: no free port")

// listen listens on a port of 127.0.0.1 that was free together with its bus port.
func listen() (net.Listener, error) {
	for range ports {
		port := firstPort + int(portsTaken.Add(1)%ports)
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
