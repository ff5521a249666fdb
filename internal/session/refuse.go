package session

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/transport"
)

// Clients of Redis on which no lock would work, although the server answers.

// switchMost is how long a client that is connected through Sentinel stays with a primary that has
// become a replica.
const switchMost = 5 * time.Second

var errReplicaOnly = errors.New("the client follows Sentinel to a read-only replica, and not to the primary; " +
	"connect without rueidis.ClientOption.ReplicaOnly")

// refused returns why a session must not start on a server that is a replica since then for that
// reason, nil if the client may soon leave it.
func refused(mode rueidis.ClientMode, since time.Time, reason error) error {
	switch {
	case mode != rueidis.ClientModeSentinel:
		return reason
	case errors.Is(reason, errReadOnly) && time.Since(since) >= switchMost:
		return errReplicaOnly
	}
	return nil
}

// single refuses a client that takes a node of a cluster for a single server, unless that node has
// all slots. answer is that to CLUSTER INFO; a server that refuses it is no node, or the user may
// not ask.
func single(answer rueidis.RedisResult) error {
	text, _ := answer.ToString()
	for line := range strings.Lines(text) {
		size, ok := strings.CutPrefix(strings.TrimSpace(line), "cluster_size:")
		if n, _ := strconv.Atoi(size); ok && n > 1 {
			return transport.ErrClusterNode
		}
	}
	return nil
}
