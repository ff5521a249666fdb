package connect

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
)

// certificates are what an address says of TLS. The files are read for each connection: they may have been replaced
// since the last one.
type certificates struct {
	ca, cert, key, server string
	trusting              bool
}

// dialer returns what makes connections.
func (e *endpoint) dialer() (*dialer, error) {
	d := &dialer{network: "tcp", servers: new(tls.Config), sentinels: new(tls.Config)}
	if e.Scheme == "unix" {
		d.network = "unix"
	}
	if !slices.Contains(secured, e.Scheme) {
		for _, name := range []string{"ca", "cert", "key", "server_name", "skip_verify"} {
			if e.q.Has(name) {
				return nil, fmt.Errorf("the parameter %q needs TLS: write rediss://", name)
			}
		}
		return d, nil
	}
	c := certificates{ca: e.q.Get("ca"), cert: e.q.Get("cert"), key: e.q.Get("key"), server: e.q.Get("server_name")}
	if (c.cert == "") != (c.key == "") {
		return nil, errors.New("a client certificate needs both parameters, cert and key")
	}
	if c.trusting = e.q.Has("skip_verify"); e.q.Get("skip_verify") != "" {
		var err error
		if c.trusting, err = strconv.ParseBool(e.q.Get("skip_verify")); err != nil {
			return nil, mistake(errors.New("skip_verify is neither true nor false"))
		}
	}
	d.secure = c.read
	_, err := c.read() // a mistake is said at once
	return d, err
}

// read returns the configuration of one connection. Without a name the server must have a certificate for the host
// that is dialed, which in a cluster is another one for each node.
func (c certificates) read() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.server, InsecureSkipVerify: c.trusting}
	if c.ca != "" {
		text, err := os.ReadFile(c.ca)
		if err != nil {
			return nil, fmt.Errorf("reading the CA certificates: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("there is no PEM certificate in %s", c.ca)
		}
	}
	if c.cert != "" {
		pair, err := tls.LoadX509KeyPair(c.cert, c.key)
		if err != nil {
			return nil, fmt.Errorf("reading the client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
