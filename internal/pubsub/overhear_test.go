package pubsub

import (
	"fmt"
	"strings"
	"testing"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/timing"
	"github.com/stretchr/testify/require"
)

// A subscription of relock to Redisson's channel counted as one of Redisson's.
func TestWhoOverhearsAChannelIsNotCounted(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	b := newBroker(t, server.Client(t))
	for _, channel := range []string{"redisson_lock__channel:{a}", `all *?[^x]\ of {them}`} {
		heard := make(chan struct{}, 1)
		l := b.Overhear(channel, func() { timing.Signal(heard) })
		for _, broken := range []bool{false, true} {
			if broken {
				_, err := server.Do("CLIENT", "KILL", "TYPE", "pubsub")
				require.NoError(t, err)
			}
			redistest.Eventually(t, enough, "the subscription", l.Live)
			for _, to := range []string{channel, channel + ":47"} {
				redistest.Eventually(t, enough, "the message to "+to, func() bool {
					select {
					case <-heard: // that it is confirmed
					default:
					}
					n, err := server.Do("PUBLISH", to, "0")
					require.NoError(t, err)
					return fmt.Sprint(n) == "1"
				})
				<-heard
			}
			n, err := server.Do("PUBSUB", "NUMSUB", channel)
			require.NoError(t, err)
			require.Contains(t, fmt.Sprint(n), " 0")
		}
		require.Equal(t, 1, b.Listeners(channel))
		l.Unsubscribe()
	}
}

// Each pattern makes every PUBLISH of the server slower.
func TestPatternsAreFew(t *testing.T) {
	t.Parallel()
	b := newBroker(t, redistest.Start(t).Client(t))
	for i := range maxPatterns {
		require.NotNil(t, b.Overhear(fmt.Sprint("channel", i), func() {}))
	}
	require.Nil(t, b.Overhear("one more", func() {}))
	require.NotNil(t, b.Overhear("channel0", func() {}))
}

// Redis allows a pattern only to users who may use just that one, or all channels.
func TestPatternsThatAreNotPermittedAreTriedOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	_, err := server.Do("ACL", "SETUSER", "default", "resetchannels", "&pinned", "&redisson*")
	require.NoError(t, err)
	b := newBroker(t, server.Client(t))
	refused := func() int {
		entries, err := server.Do("ACL", "LOG")
		require.NoError(t, err)
		return strings.Count(fmt.Sprint(entries), "toplevel")
	}
	a := b.Overhear("redisson_lock__channel:{a}", func() {})
	redistest.Eventually(t, enough, "the refusal", func() bool { return refused() == 1 })
	redistest.Eventually(t, enough, "the news of it", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.noPatterns
	})
	c := b.Overhear("redisson_lock__channel:{b}", func() {})
	l := b.SubscribeFunc("redisson", func() {})
	redistest.Eventually(t, enough, "what is permitted", l.Live)
	require.False(t, a.Live() || c.Live())
	require.Equal(t, 1, refused())
}
