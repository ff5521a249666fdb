package locks_test

import (
	"strings"
	"testing"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A side is one of the two of a read-write lock.
type side string

const (
	reading side = "reader"
	writing side = "writer"
)

// wants waits until a reader or writer, which waits in Redis, is known there to do so.
func wants(t testing.TB, s *redistest.Server, who side) {
	t.Helper()
	redistest.Eventually(t, kit.Soon, "a "+string(who)+" to wait", func() bool { return intends(t, s, who) })
}

// intends reports whether Redis knows of a waiting reader or writer.
func intends(t testing.TB, s *redistest.Server, who side) bool {
	t.Helper()
	reply, err := s.Do("ZRANGE", "relock_rwqueue:{lock}", "0", "-1")
	require.NoError(t, err)
	for _, id := range reply.([]any) {
		if strings.HasSuffix(id.(string), ":write") == (who == writing) {
			return true
		}
	}
	return false
}
