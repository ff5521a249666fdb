package goredis

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// How connections are made and authenticated, where rueidis by itself does otherwise than
// go-redis:
//
//   - A Dialer of the options makes the whole connection, TLS included.
//   - An address that starts with a slash is a Unix socket.
//   - A provider of credentials is not asked for those of sentinels. rueidis has one function for
//     both kinds of servers, so the connections to sentinels are marked.

// authenticate completes r with the credentials, and with a function to dial if it needs one.
func authenticate(r *rueidis.ClientOption, o *redis.UniversalOptions, l login) {
	d := &dialer{custom: o.Dialer, timeout: dialTimeout(o), tls: o.TLSConfig}
	if l == nil {
		r.Username, r.Password = credentials(o.Username, o.Password)
	} else {
		sentinels := r.Sentinel
		r.AuthCredentialsFn = func(c rueidis.AuthCredentialsContext) (a rueidis.AuthCredentials, err error) {
			if _, ok := c.Address.(sentinelAddr); ok {
				return rueidis.AuthCredentials{Username: sentinels.Username, Password: sentinels.Password}, nil
			}
			a.Username, a.Password, err = l()
			a.Username, a.Password = credentials(a.Username, a.Password)
			return a, err
		}
		if kindOf(o) == sentinel {
			d.sentinels = new(tls.Config)
			r.Sentinel.TLSConfig = d.sentinels
		}
	}
	unix := slices.ContainsFunc(r.InitAddress, isUnix)
	if d.custom != nil || d.sentinels != nil || unix {
		r.DialCtxFn = d.dial
	}
}

// overNetwork has r dial a single server over that network.
func overNetwork(r *rueidis.ClientOption, o *redis.UniversalOptions, network string) {
	d := &dialer{custom: o.Dialer, network: network, timeout: dialTimeout(o), tls: o.TLSConfig}
	r.DialCtxFn = d.dial
}

func isUnix(addr string) bool { return strings.HasPrefix(addr, "/") }

// dialTimeout returns the bound for making a connection.
func dialTimeout(o *redis.UniversalOptions) time.Duration {
	return cmp.Or(max(0, o.DialTimeout), defaultDialTimeout)
}

// A dialer makes connections for rueidis.
type dialer struct {
	custom    func(ctx context.Context, network, addr string) (net.Conn, error) // or nil
	network   string                                                            // "": by the address
	timeout   time.Duration
	tls       *tls.Config // nil: none
	sentinels *tls.Config // what rueidis passes for a sentinel; a mark, and not used otherwise
}

// dial is a ClientOption.DialCtxFn.
func (d *dialer) dial(ctx context.Context, addr string, plain *net.Dialer, mark *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	conn, err := d.connect(ctx, addr, plain)
	if err == nil && mark != nil && mark == d.sentinels {
		conn = sentinelConn{conn}
	}
	return conn, err
}

func (d *dialer) connect(ctx context.Context, addr string, plain *net.Dialer) (net.Conn, error) {
	network := cmp.Or(d.network, "tcp")
	if d.network == "" && isUnix(addr) {
		network = "unix"
	}
	switch {
	case d.custom != nil:
		return d.custom(ctx, network, addr)
	case d.tls != nil:
		encrypted := tls.Dialer{NetDialer: plain, Config: d.tls}
		return encrypted.DialContext(ctx, network, addr)
	}
	return plain.DialContext(ctx, network, addr)
}

// sentinelConn is a connection to a sentinel.
type sentinelConn struct{ net.Conn }

func (c sentinelConn) RemoteAddr() net.Addr { return sentinelAddr{c.Conn.RemoteAddr()} }

// sentinelAddr is the address of a sentinel.
type sentinelAddr struct{ net.Addr }
