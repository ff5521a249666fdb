package connect

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/redis/rueidis"
)

const (
	tlsSilent = 300 * time.Millisecond // after that long a server that knows TLS has answered, or is far away
	askPlain  = 500 * time.Millisecond
	askTLS    = time.Second
	askServer = 2 * time.Second
)

// A schemeError says that TLS was tried where the server does not know it, or was not where the server wants it.
type schemeError struct{ text string }

func (e *schemeError) Error() string { return e.text }

func plainError(address string) error {
	return &schemeError{address + " answers without TLS: write redis:// instead of rediss://"}
}

// A dialer makes the connections of a client. rueidis passes the configuration of the servers or that of the
// sentinels, which only tell them apart.
type dialer struct {
	network            string                      // tcp, or unix
	secure             func() (*tls.Config, error) // nil: without TLS
	servers, sentinels *tls.Config
}

func (d *dialer) dial(ctx context.Context, address string, plain *net.Dialer, of *tls.Config) (net.Conn, error) {
	conn, err := d.connect(ctx, address, plain)
	if err == nil && of == d.sentinels {
		conn = sentinelConn{conn}
	}
	return conn, err
}

func (d *dialer) connect(ctx context.Context, address string, plain *net.Dialer) (net.Conn, error) {
	if d.secure == nil {
		return plain.DialContext(ctx, d.network, address)
	}
	c, err := d.secure()
	if err != nil {
		return nil, err
	}
	return encrypted(ctx, address, plain, c)
}

// encrypted connects with TLS. A server without TLS waits for the rest of what it takes for a command, so if
// the handshake takes long a second connection asks whether it is one.
func encrypted(ctx context.Context, address string, d *net.Dialer, c *tls.Config) (net.Conn, error) {
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
	return err == nil && answers(conn, askPlain)
}

// answers reports whether a server of Redis answers on a connection, which it closes.
func answers(conn net.Conn, within time.Duration) bool {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(within))
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	var first [1]byte
	_, err := conn.Read(first[:])
	return err == nil && (first[0] == '+' || first[0] == '-')
}

// wantsTLS returns err, or if a connection without TLS was closed by a server that speaks TLS, an error that says so.
func wantsTLS(ctx context.Context, o rueidis.ClientOption, err error) error {
	socket, closed := strings.HasPrefix(o.InitAddress[0], "/"), errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
	if o.TLSConfig != nil || socket || !closed {
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
