package session

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
func (s *Session) writeLabel(ctx context.Context) bool {
	ctx, stop := timing.Within(ctx, transport.Patience)
	defer stop()
	length := s.Config.Lease
	for _, l := range s.Watchdog.All() {
		length = max(length, l.Length)
	}
	code, _ := transport.Code(s.Proto.SetLabel(ctx, s.ID, s.Config.Label, length+s.Config.Lease/2))
	return code != "NOPERM"
}

// keepLabel keeps the label until the session ends, and deletes it then.
func (s *Session) keepLabel() {
	again := time.NewTicker(s.Config.Lease / 4)
	defer again.Stop()
	for s.ioCtx.Err() == nil {
		select {
		case <-again.C:
			s.writeLabel(s.ioCtx)
		case <-s.ioCtx.Done():
		}
	}
	ctx, stop := timing.Within(s.abandoned, transport.Patience)
	defer stop()
	_ = s.Proto.DropLabel(ctx, s.ID) // it expires
}
