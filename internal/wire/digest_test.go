package wire

import (
	"crypto/sha1"
	"encoding/hex"
	"testing"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/transport"
	"github.com/stretchr/testify/require"
)

// digestOf returns what EVALSHA calls a script.
func digestOf(s *transport.Script) (sha string) {
	redistest.WithoutFIPS(func() {
		sum := sha1.Sum([]byte(s.Text))
		sha = hex.EncodeToString(sum[:])
	})
	return sha
}

// Before a session has asked, and where the server does not say, the text is sent.
func TestScriptWithoutADigestIsSentWhole(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		s := &transport.Script{Text: "return ARGV[1]"}
		for _, known := range []bool{false, true} {
			if known {
				sha := digestOf(s)
				s.Sha.Store(&sha)
			}
			got, err := r.Eval(ctx0, s, nil, []string{"x"}).ToString()
			require.NoError(t, err)
			require.Equal(t, "x", got)
		}
	})
}
