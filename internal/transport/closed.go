package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/timing"
)

// What a server says to a new connection that it does not want is lost on the way through rueidis.

// NotReady returns what the server said, if err is of a new connection that it refused to set up
// because it is busy. rueidis takes that for a server without client-side caching. Otherwise it
// returns nil.
func NotReady(err error) error {
	if !errors.Is(err, rueidis.ErrNoCache) {
		return nil
	}
	said, _, _ := strings.Cut(err.Error(), ": [")
	if !Passes(RedisCode(said)) {
		return nil
	}
	return errors.New(said)
}

// WhyClosed returns err with what is behind it, if err says only that a new connection was closed.
// A server that has too many says so and closes the connection; rueidis returns the end, not the
// text. So the server is asked on the connection that the client has. In a cluster all nodes are.
func (c *Conn) WhyClosed(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
	default:
		return err
	}
	nodes := map[string]rueidis.Client{"": c.Client}
	if c.Client.Mode() == rueidis.ClientModeCluster {
		nodes = c.Client.Nodes()
	}
	for addr, node := range nodes {
		within, stop := timing.Within(ctx, nodeTimeout)
		text, _ := c.Ask(within, addr, node, node.B().Info().Build()).ToString()
		stop()
		if most := maxClients(text); most > 0 {
			return fmt.Errorf("max number of clients reached: "+
				"the server has all the connections that it allows (maxclients %d); %w", most, err)
		}
	}
	return fmt.Errorf("the server, or a proxy before it, has closed the connection: %w", err)
}

// maxClients returns the limit of connections that INFO tells, if it is reached, else 0.
func maxClients(info string) int {
	fields := make(map[string]int)
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name], _ = strconv.Atoi(value)
	}
	most := fields["maxclients"]
	if fields["connected_clients"]+fields["connected_slaves"]+fields["cluster_connections"] < most {
		return 0
	}
	return most
}
