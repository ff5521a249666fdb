package connect

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"

	"github.com/redis/rueidis"
)

// secure sets up TLS. Without server_name each server must have a certificate for the host
// that is dialed, which in a cluster is another one for each node.
func secure(o *rueidis.ClientOption, q url.Values) error {
	c := o.TLSConfig
	if c == nil {
		for _, name := range []string{"ca", "cert", "key", "server_name", "skip_verify"} {
			if q.Has(name) {
				return fmt.Errorf("the parameter %q needs TLS: write rediss://", name)
			}
		}
		return nil
	}
	c.ServerName = q.Get("server_name")
	if file := q.Get("ca"); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading the CA certificates: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("there is no PEM certificate in %s", file)
		}
	}
	cert, key := q.Get("cert"), q.Get("key")
	if (cert == "") != (key == "") {
		return errors.New("a client certificate needs both parameters, cert and key")
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return fmt.Errorf("reading the client certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	if o.Sentinel.MasterSet != "" {
		o.Sentinel.TLSConfig = c
	}
	return nil
}
