package kit

import (
	"bytes"

	"github.com/relock-go/relock/internal/redistest"
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
