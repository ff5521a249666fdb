package pubsub

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/transport"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, redistest.Leaks()...) }

const enough = 20 * time.Second // for what comes quickly on an idle machine

// newBroker starts a broker, which has one channel pinned like that of a session. It
// ends with the test.
func newBroker(t *testing.T, client rueidis.Client) *Broker {
	t.Helper()
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	b := New(Config{
		Conn:    transport.NewConn(client, 0, 0, &wg),
		Clock:   clock.New(),
		Handler: func(string, string) bool { return false },
		Tasks:   &wg,
		Ctx:     ctx,
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	pinning, stop := context.WithTimeout(ctx, enough)
	defer stop()
	require.NoError(t, b.Pin("pinned", func(bool) {})(pinning))
	return b
}
