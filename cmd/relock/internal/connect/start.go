package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
)

// Start connects and starts a session. While nothing but time is lacking, because the server or this host is busy, it
// tries again until ctx ends, each time with more patience. Then it returns a *BusyError if the server is there.
func Start(ctx context.Context, address string, opts ...relock.SessionOption) (rueidis.Client, *relock.Session, error) {
	for patience := answerWithin; ; patience *= 2 {
		client, session, err := start(ctx, address, patience, opts)
		if err == nil || !late(err) {
			return client, session, err
		}
		select {
		case <-ctx.Done():
			if ctx.Err() == context.DeadlineExceeded && (errors.As(err, new(*sessionError)) || there(address)) {
				err = &BusyError{err}
			}
			return nil, nil, err
		case <-time.After(100*time.Millisecond + rand.N(200*time.Millisecond)):
		}
	}
}

// there reports whether a server answers at an address.
func there(address string) bool {
	o, err := Options(address)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), askServer)
	defer cancel()
	conn, err := o.DialCtxFn(ctx, o.InitAddress[0], &o.Dialer, o.TLSConfig)
	return err == nil && answers(conn, askServer)
}

func start(ctx context.Context, address string, patience time.Duration, opts []relock.SessionOption) (
	rueidis.Client, *relock.Session, error) {
	client, err := open(ctx, address, patience)
	if err != nil {
		return nil, nil, err
	}
	session, err := relock.NewSession(ctx, client, opts...)
	if err == nil {
		return client, session, nil
	}
	client.Close()
	return nil, nil, Explained(ctx, address, &sessionError{err})
}

// sessionError is why a session could not start at a server that is there.
type sessionError struct{ err error }

func (e *sessionError) Error() string { return e.err.Error() }
func (e *sessionError) Unwrap() error { return e.err }

// late reports whether another attempt may have what this one lacked, time: nobody has refused anything.
func late(err error) bool {
	var timeout net.Error
	switch {
	case errors.As(err, new(*rueidis.RedisError)), errors.Is(err, relock.ErrOption):
		return false
	case strings.Contains(err.Error(), "read-only replica"): // it has said what it is
		return false
	case errors.As(err, &timeout):
		return timeout.Timeout()
	}
	return errors.As(err, new(*sessionError)) && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET)
}

// BusyError says that a session could not start in time, at a server that is there.
type BusyError struct{ err error }

func (e *BusyError) Error() string {
	return fmt.Sprintf("busy, try again: the server or this host is too slow (%v)", e.err)
}

func (e *BusyError) Unwrap() error { return e.err }
