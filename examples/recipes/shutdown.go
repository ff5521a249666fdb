package recipes

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/relock-go/relock"
)

// serve serves and works until SIGTERM. Then it ends both, and frees the locks.
func serve(
	l net.Listener, server *http.Server, session *relock.Session, work func(context.Context),
) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	served := make(chan error, 1)
	go work(ctx)
	go func() { served <- server.Serve(l) }()
	var err error
	select {
	case <-ctx.Done():
	case err = <-served:
		stop() // which ends ctx
	}
	ending, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	err = errors.Join(err, server.Shutdown(ending)) // requests under way end, and unlock
	ending, cancel = context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(err, session.Shutdown(ending)) // the work unlocks, or loses its locks after 5 s
}
