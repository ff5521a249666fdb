package connect

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/redis/rueidis"
)

// A login is who the user is. The password may be in a file, which is read for each connection: it may have been
// replaced since the last one.
type login struct{ user, password, file string }

func (l login) read() (c rueidis.AuthCredentials, err error) {
	c.Username, c.Password = l.user, l.password
	if l.file == "" {
		return c, nil
	}
	text, err := os.ReadFile(l.file)
	if err != nil {
		return c, fmt.Errorf("reading the password: %w", err)
	}
	c.Password = strings.TrimRight(string(text), "\r\n")
	return c, nil
}

// connections sets how connections are made and authenticated.
func (e *endpoint) connections(o *rueidis.ClientOption) error {
	d, err := e.dialer()
	if err != nil {
		return err
	}
	if d.secure != nil {
		o.TLSConfig = d.servers
	}
	if o.Sentinel.MasterSet != "" {
		o.Sentinel.TLSConfig = d.sentinels
	}
	o.DialCtxFn = d.dial
	own, sentinels := e.logins()
	o.AuthCredentialsFn = func(c rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		if _, ok := c.Address.(sentinelAddr); ok {
			return sentinels.read()
		}
		return own.read()
	}
	if _, err := own.read(); err != nil { // a mistake is said at once
		return err
	}
	_, err = sentinels.read()
	return err
}

// logins returns who the user is for the servers, and for the sentinels.
func (e *endpoint) logins() (own, sentinels login) {
	first := &own
	if e.q.Has("master_name") { // before the host go-redis then has the user of the sentinels
		first = &sentinels
	}
	first.user = e.User.Username()
	first.password, _ = e.User.Password()
	q := e.q.Get
	own = login{cmp.Or(q("username"), own.user), cmp.Or(q("password"), own.password), q("password_file")}
	sentinels = login{
		cmp.Or(q("sentinel_user"), sentinels.user), cmp.Or(q("sentinel_password"), sentinels.password),
		q("sentinel_password_file"),
	}
	return own, sentinels
}

// sentinelConn is a connection to a sentinel, whose users are others than those of the servers.
type sentinelConn struct{ net.Conn }

func (c sentinelConn) RemoteAddr() net.Addr { return sentinelAddr{c.Conn.RemoteAddr()} }

// sentinelAddr is the address of a sentinel.
type sentinelAddr struct{ net.Addr }
