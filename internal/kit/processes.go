package kit

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// FaultsChild starts a faultsClient, whose lock is a Mutex, or the write side of an
// RWMutex if the kind is "write".
func FaultsChild(t testing.TB, at Addressed, name string, lease time.Duration, kind ...string) *redistest.Proc {
	t.Helper()
	p := redistest.Child(t, "faults-client", at.Addr(), name, lease.String(), append(kind, "plain")[0])
	_, err := p.Expect("ready ", Soon)
	require.NoError(t, err)
	return p
}

// Tell sends a command to a child and returns its answer, after the first word.
func Tell(t testing.TB, p *redistest.Proc, command, answer string) string {
	t.Helper()
	require.NoError(t, p.Send(command))
	rest, err := p.Expect(answer, Soon)
	require.NoError(t, err)
	return strings.TrimSpace(rest)
}

func TellToken(t testing.TB, p *redistest.Proc) int64 {
	t.Helper()
	token, err := strconv.ParseInt(Tell(t, p, "lock", "locked"), 10, 64)
	require.NoError(t, err)
	return token
}
