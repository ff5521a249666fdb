package transport

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/timing"
)

// The timer of a pause went on to use the context after the pause, when that was freed: the process died.
func TestContextIsFreeAfterAPause(t *testing.T) {
	t.Parallel()
	c := new(Conn)
	for range 2000 {
		io := c.NewContext(context.Background())
		timing.Pause(io, time.Microsecond)
		io.Free()
	}
}
