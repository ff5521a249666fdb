package connect

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/redis/rueidis"
)

const (
	tlsSilent = 300 * time.Millisecond // after that long a server that knows TLS has answered, or is far away
	askPlain  = 500 * time.Millisecond
	askTLS    = time.Second
)

// A schemeError says that TLS was tried where the server does not know it, or was not where the server wants it.
type schemeError struct{ text string }

func (e *schemeError) Error() string { return e.text }

func plainError(address string) error {
	return &schemeError{address + " answers without TLS: write redis:// instead of rediss://"}
}

// dial connects as rueidis does. A server without TLS waits for the rest of what it takes for a command, so if
// the handshake takes long a second connection asks whether it is one.
func dial(ctx context.Context, address string, d *net.Dialer, c *tls.Config) (net.Conn, error) {
	if c == nil {
		return d.DialContext(ctx, "tcp", address)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	asked := time.AfterFunc(tlsSilent, func() {
		if plain(ctx, address, d) {
			cancel(plainError(address))
		}
	})
	defer asked.Stop()
	conn, err := (&tls.Dialer{NetDialer: d, Config: c}).DialContext(ctx, "tcp", address)
	if err == nil {
		return conn, nil
	}
	if cause, ok := context.Cause(ctx).(*schemeError); ok {
		return nil, cause
	}
	if _, other := err.(tls.RecordHeaderError); other && plain(ctx, address, d) {
		return nil, plainError(address)
	}
	return nil, err
}

// plain reports whether a server speaks Redis's protocol without TLS.
func plain(ctx context.Context, address string, d *net.Dialer) bool {
	ctx, cancel := context.WithTimeout(ctx, askPlain)
	defer cancel()
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(askPlain))
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	var first [1]byte
	_, err = conn.Read(first[:])
	return err == nil && (first[0] == '+' || first[0] == '-')
}

// wantsTLS returns err, or if a connection without TLS was closed by a server that speaks TLS, an error that says so.
func wantsTLS(ctx context.Context, o rueidis.ClientOption, err error) error {
	if o.TLSConfig != nil || o.DialCtxFn == nil || !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTLS)
	defer cancel()
	d := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} // it only asks, and sends nothing
	for _, address := range o.InitAddress {
		conn, refused := d.DialContext(ctx, "tcp", address)
		if refused == nil {
			_ = conn.Close()
		}
		if refused == nil || errors.As(refused, new(tls.AlertError)) {
			return &schemeError{address + " answers with TLS: write rediss:// instead of redis://"}
		}
	}
	return err
}
