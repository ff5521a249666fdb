package test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
)

// certificate makes a certificate for 127.0.0.1 that is its own authority, and writes it and its
// key to files.
func certificate(t testing.TB) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	public, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, content []byte) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	return write("cert.pem", "CERTIFICATE", public), write("key.pem", "EC PRIVATE KEY", secret)
}

// secured starts a server that wants TLS with client certificates, and returns where.
func secured(t testing.TB, cert, key string) (address string) {
	t.Helper()
	for attempt := 0; ; attempt++ { // a port that is free may be taken in the next moment
		free, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address = free.Addr().String()
		_, port, _ := net.SplitHostPort(address)
		_ = free.Close()
		s, err := redistest.Launch(t.TempDir(), "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key,
			"--tls-ca-cert-file", cert, "--tls-auth-clients", "yes")
		if err == nil {
			t.Cleanup(s.Close)
			return address
		}
		if attempt == 5 {
			t.Fatal(err)
		}
	}
}

func TestTLSWithClientCertificates(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.TLS)
	cert, key := certificate(t)
	address := secured(t, cert, key)
	start(t, command("rediss://"+address+"?ca="+cert+"&cert="+cert+"&key="+key, "run", "job", "--", "true")).ends(0)
	start(t, command("rediss://"+address+"?skip_verify&cert="+cert+"&key="+key, "run", "job", "--", "true")).ends(0)
	for _, wrong := range []string{
		"redis://" + address,
		"rediss://" + address + "?cert=" + cert + "&key=" + key, // nobody vouches for the server
		"rediss://" + address + "?ca=" + cert + "&cert=" + cert + "&key=" + key + "&server_name=elsewhere",
		"rediss://" + address + "?ca=" + cert,
	} {
		start(t, command(wrong, "run", "job", "--", "true")).ends(69)
	}
}
