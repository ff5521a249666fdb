package connect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Open connects. It returns when ctx ends, even while rueidis, which knows no context here,
// still dials.
func Open(ctx context.Context, address string) (rueidis.Client, error) { return open(ctx, address, 0) }

// open is Open with a client that waits at least that long for an answer.
func open(ctx context.Context, address string, patience time.Duration) (rueidis.Client, error) {
	o, err := Options(address)
	if err != nil {
		return nil, &AddressError{err}
	}
	o.ConnWriteTimeout = max(o.ConnWriteTimeout, patience)
	type result struct {
		client rueidis.Client
		err    error
	}
	opened := make(chan result, 1)
	go func() { // ends with the dial, or with the process
		c, err := rueidis.NewClient(o)
		if err != nil && c != nil {
			c.Close()
			c = nil
		}
		if err != nil {
			err = wantsTLS(ctx, o, err)
		}
		opened <- result{c, err}
	}()
	select {
	case <-ctx.Done():
		go func() {
			if r := <-opened; r.client != nil {
				r.client.Close()
			}
		}()
		masked, _ := Mask(address)
		return nil, fmt.Errorf("cannot connect to %s: it does not answer (%w)", masked, context.Cause(ctx))
	case r := <-opened:
		if r.err != nil {
			masked, _ := Mask(address)
			// A server that does not know a command repeats its arguments: AUTH has a password.
			if what, _, repeats := strings.Cut(r.err.Error(), ", with args beginning with"); repeats {
				r.err = errors.New(what)
			}
			return nil, fmt.Errorf("cannot connect to %s: %w", masked, r.err)
		}
		return r.client, nil
	}
}

// Explained names the server in an error of a session that could not start before ctx ended.
func Explained(ctx context.Context, address string, err error) error {
	if err == nil || ctx.Err() == nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	masked, _ := Mask(address)
	return fmt.Errorf("no session at %s: %w", masked, err)
}

// AddressError says that the address is wrong: a mistake of the user, not of the server.
type AddressError struct{ err error }

func (e *AddressError) Error() string { return "--redis: " + e.err.Error() }
func (e *AddressError) Unwrap() error { return e.err }
