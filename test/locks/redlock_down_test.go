package locks_test

import (
	"bytes"
	"testing"

	"github.com/relock-go/relock/internal/kit"
	"github.com/stretchr/testify/require"
)

// breakNext breaks the connection to a server at the next acquisition there.
func (p *site) breakNext(i int) (landed <-chan struct{}) {
	return p.proxies[i].DropReplies(func(request []byte) bool { return bytes.Contains(request, []byte("relock_fence")) })
}

// A connection that breaks is no reason to do without a deployment: it has cost no time,
// and the next call makes another.
func TestADeploymentWhoseConnectionBreaksIsTriedAgain(t *testing.T) {
	t.Parallel()
	p := newSite(t, 3)
	r := p.redlock("lock")
	p.fully(t, r)
	kit.Unlock(t, kit.Background, r)
	asked := p.asked(1)
	for range 3 {
		landed := p.breakNext(1)
		kit.Lock(t, kit.Background, r) // on the two others
		kit.Receive(t, landed, "the connection to break")
		kit.Unlock(t, kit.Background, r)
		n := asked.Load()
		for range 10 { // of some 1,000 in the time for which one that hangs is left out
			kit.Lock(t, kit.Background, r)
			kit.Unlock(t, kit.Background, r)
		}
		require.Greater(t, asked.Load(), n)
		p.fully(t, r)
		kit.Unlock(t, kit.Background, r)
	}
	p.nothingLeft(t)
}
