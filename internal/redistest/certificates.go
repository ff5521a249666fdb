package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// An Authority signs certificates for 127.0.0.1. It is made by [NewAuthority], and its methods stop the test with
// t.Fatal when they fail.
type Authority struct {
	File string // its own certificate

	tb   testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority whose files are removed when the test ends.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{tb: t}
	a.cert, a.key, a.File, _ = a.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"},
		IsCA:    true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	return a
}

// issue signs a certificate, or lets it sign itself if there is none yet, and writes it to a file.
func (a *Authority) issue(template *x509.Certificate) (
	cert *x509.Certificate, key *ecdsa.PrivateKey, certFile, keyFile string,
) {
	a.tb.Helper()
	check := func(err error) {
		if err != nil {
			a.tb.Fatal(err)
		}
	}
	template.SerialNumber, template.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(time.Hour)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	check(err)
	cert, err = x509.ParseCertificate(der)
	check(err)
	secret, err := x509.MarshalECPrivateKey(key)
	check(err)
	write := func(name, kind string, content []byte) string {
		name = filepath.Join(a.tb.TempDir(), name)
		check(os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600))
		return name
	}
	return cert, key, write("cert.pem", "CERTIFICATE", der), write("key.pem", "EC PRIVATE KEY", secret)
}

// Issue returns the files of a certificate for 127.0.0.1, of a server or a client.
func (a *Authority) Issue() (certFile, keyFile string) {
	a.tb.Helper()
	_, _, certFile, keyFile = a.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "leaf"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	})
	return certFile, keyFile
}

// Client returns the configuration of a client that has a certificate too.
func (a *Authority) Client() *tls.Config {
	a.tb.Helper()
	trust := x509.NewCertPool()
	trust.AddCert(a.cert)
	own, err := tls.LoadX509KeyPair(a.Issue())
	if err != nil {
		a.tb.Fatal(err)
	}
	return &tls.Config{RootCAs: trust, Certificates: []tls.Certificate{own}}
}

// Settings returns names and values of the settings of a server that speaks TLS on a port and demands certificates.
func (a *Authority) Settings(port string) []string {
	a.tb.Helper()
	certFile, keyFile := a.Issue()
	return []string{
		"tls-port", port, "tls-cert-file", certFile, "tls-key-file", keyFile, "tls-ca-cert-file", a.File,
		"tls-auth-clients", "yes", "tls-replication", "yes",
	}
}

// FreePort returns a port that was free a moment ago, and is none that another test process takes for servers.
func FreePort(t testing.TB) string {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(port)
}

// StartTLS starts a server as [Start] does, which speaks TLS at another address, and demands certificates there.
func StartTLS(t testing.TB, a *Authority, args ...string) (s *Server, addr string) {
	t.Helper()
	port := FreePort(t)
	for setting := a.Settings(port); len(setting) > 0; setting = setting[2:] {
		args = append(args, "--"+setting[0], setting[1])
	}
	return Start(t, args...), net.JoinHostPort("127.0.0.1", port)
}
