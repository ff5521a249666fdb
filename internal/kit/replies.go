package kit

import (
	"bytes"
	"testing"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// DropReplyOf has the reply to the next command with all these words swallowed.
func DropReplyOf(p *redistest.Proxy, words ...string) (landed <-chan struct{}) {
	return p.DropReplies(func(request []byte) bool {
		for _, w := range words {
			if !bytes.Contains(request, []byte(w)) {
				return false
			}
		}
		return true
	})
}

// HeldOnce checks that the lock has one holder in Redis, once.
func HeldOnce(t testing.TB, s *redistest.Server, name string) string {
	t.Helper()
	reply, err := s.Do("HGETALL", name)
	require.NoError(t, err)
	fields := reply.([]any)
	require.Len(t, fields, 2, "one hold")
	require.Equal(t, "1", fields[1], "hold count")
	return fields[0].(string)
}
