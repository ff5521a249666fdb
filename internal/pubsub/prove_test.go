package pubsub

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// While messages come that prove what a probe would, none is sent; after the last one, they are again.
func TestAMessageThatProvesTheLinkSavesAProbe(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, ctx := server.Client(t), context.Background()
	b := newBroker(t, client, func(c *Config) { c.Proves = func(message string) bool { return message == "proof" } })
	require.True(t, b.Live("pinned"))
	probes := func() int64 { return server.CommandStats()["role"] }

	var since time.Time // no probe was sent
	last := int64(-1)
	redistest.Eventually(t, time.Minute, "no probe for three times as long as they are apart", func() bool {
		require.NoError(t, client.Do(ctx, client.B().Publish().Channel("pinned").Message("proof").Build()).Error())
		if n := probes(); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) > 3*idleInterval
	})
	redistest.Eventually(t, enough, "a probe, since no messages come", func() bool { return probes() > last })
	redistest.Eventually(t, enough, "a probe, although messages come that prove nothing", func() bool {
		require.NoError(t, client.Do(ctx, client.B().Publish().Channel("pinned").Message("other").Build()).Error())
		return probes() > last+2
	})
}
