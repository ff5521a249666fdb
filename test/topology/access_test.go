package topology_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// with is a deployment whose clients are set up in a certain way.
type with struct {
	deployment
	mod func(*rueidis.ClientOption)
}

func (w with) Client(t testing.TB, mod ...func(*rueidis.ClientOption)) rueidis.Client {
	t.Helper()
	return w.deployment.Client(t, append(mod, w.mod)...)
}

// certificate makes a certificate for 127.0.0.1 that is its own authority. It returns
// the names of the files for a server and what a client must trust.
func certificate(t testing.TB) (certFile, keyFile string, trust *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:         true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	secret, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	write := func(name, kind string, content []byte) string {
		name = filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600))
		return name
	}
	parsed, err := x509.ParseCertificate(cert)
	require.NoError(t, err)
	trust = x509.NewCertPool()
	trust.AddCert(parsed)
	return write("cert.pem", "CERTIFICATE", cert), write("key.pem", "EC PRIVATE KEY", secret), trust
}

// withTLS starts a server that can be reached with TLS, and returns where.
func withTLS(t testing.TB, certFile, keyFile string) (s *redistest.Server, addr string) {
	t.Helper()
	var err error
	for range 5 { // a port that is free may be taken in the next moment
		free, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		addr = free.Addr().String()
		_, port, err := net.SplitHostPort(addr)
		require.NoError(t, err)
		require.NoError(t, free.Close())
		if s, err = redistest.Launch(t.TempDir(), "--tls-port", port, "--tls-cert-file", certFile,
			"--tls-key-file", keyFile, "--tls-ca-cert-file", certFile, "--tls-auth-clients", "no"); err == nil {
			t.Cleanup(s.Close)
			return s, addr
		}
	}
	t.Fatal(err)
	return nil, ""
}

func TestLocksOfEveryKindWorkWithTLS(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.TLS)
	certFile, keyFile, trust := certificate(t)
	server, addr := withTLS(t, certFile, keyFile)
	d := with{replicated{server}, func(o *rueidis.ClientOption) {
		o.InitAddress = []string{addr}
		o.TLSConfig = &tls.Config{RootCAs: trust}
	}}
	join := parties(t, d)
	a, b := join(), join()
	handOver(t, duels(t, a, b, "encrypted"))
	_, err := kit.Connect(addr)
	require.Error(t, err, "without TLS")
}

// Each database has locks of its own, but messages go to all: those of another one wake
// a waiter for nothing, and no more.
func TestDatabasesDoNotShareLocks(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	zero := replicated{server}
	three := with{zero, func(o *rueidis.ClientOption) { o.SelectDB = 3 }}
	var losses lossCount
	join0, join3 := parties(t, zero), parties(t, three, relock.WithObserver(&losses))
	a0, b0, a3, b3 := join0(), join0(), join3(), join3()
	in0, in3 := duels(t, a0, b0, "the same"), duels(t, a3, b3, "the same")
	handOver(t, in0)
	stand(t, in3)
	handOver(t, in3)

	in0, in3 = duels(t, a0, b0, "forced"), duels(t, a3, b3, "forced")
	stand(t, in0)
	for _, d := range in0 {
		state, err := b0[0].Inspect(kit.Background, d.name)
		require.NoError(t, err)
		require.Len(t, state.Holders, 1, d.name)
		if d.kinds == "Redlock" {
			continue
		}
		was, err := b0[0].ForceUnlock(kit.Background, d.name)
		require.NoError(t, err)
		require.True(t, was, d.name)
		kit.Receive(t, d.held.Done(), d.name+" to be lost")
		require.ErrorIs(t, d.held.Unlock(kit.Background), relock.ErrLost, d.name) // of a group, the other members
		require.NoError(t, kit.Receive(t, d.got, "the waiter to get in"))
	}
	stand(t, in3)
	handOver(t, in3)
	losses.none(t)

	th0, th3 := startThrong(t, zero), startThrong(t, three)
	th0.goesOn(t)
	th3.goesOn(t)
	th0.end(t)
	th3.end(t)
}
