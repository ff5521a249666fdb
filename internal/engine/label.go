package engine

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
)

// The session's label is in Redis from the start of the session until Close, and written again
// every quarter of a lease, when no renewals are due: calls that overlap slow a connection of
// rueidis down. After the death of the process it stays there until its last lease has ended.

// writeLabel stores the label. It reports whether the user may.
func (e *Engine) writeLabel(ctx context.Context) bool {
	ctx, stop := timing.Within(ctx, transport.Patience)
	defer stop()
	length := e.Config.Lease
	for _, l := range e.watchdog.All() {
		length = max(length, l.Length)
	}
	code, _ := transport.Code(e.proto.SetLabel(ctx, e.id, e.Config.Label, length+e.Config.Lease/2))
	return code != "NOPERM"
}

// keepLabel keeps the label until the engine ends, and deletes it then.
func (e *Engine) keepLabel() {
	again := time.NewTicker(e.Config.Lease / 4)
	defer again.Stop()
	for e.ioCtx.Err() == nil {
		select {
		case <-again.C:
			e.writeLabel(e.ioCtx)
		case <-e.ioCtx.Done():
		}
	}
	ctx, stop := timing.Within(e.abandoned, transport.Patience)
	defer stop()
	_ = e.proto.DropLabel(ctx, e.id) // it expires
}
