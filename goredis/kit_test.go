package goredis_test

import (
	"context"
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
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/goredis"
	"github.com/relock-go/relock/internal/redistest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, redistest.Leaks()...) }

const patience = time.Minute

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func command(t testing.TB, s *redistest.Server, args ...string) {
	t.Helper()
	must(s.Do(args...))(t)
}

// connect returns a client with these options, which the end of the test closes.
func connect(t testing.TB, o redis.UniversalOptions) rueidis.Client {
	t.Helper()
	client := must(goredis.NewClient(&o))(t)
	t.Cleanup(client.Close)
	return client
}

// session returns a session on a client of its own.
func session(t testing.TB, o redis.UniversalOptions) *relock.Session {
	t.Helper()
	return sessionOn(t, connect(t, o))
}

func sessionOn(t testing.TB, client rueidis.Client) *relock.Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s := must(relock.NewSession(ctx, client))(t)
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// native returns go-redis' own client.
func native(t testing.TB, o redis.UniversalOptions) redis.UniversalClient {
	t.Helper()
	if o.MasterName != "" {
		o.IsClusterMode = false // that client leaves goroutines behind (v9.23.0)
	}
	rdb := redis.NewUniversalClient(&o)
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

// excludes fails the test unless two sessions with these options exclude each other, one wakes
// the other, and go-redis with the same options finds the lock where they keep it.
func excludes(t testing.TB, o redis.UniversalOptions) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	a, b, rdb := session(t, o), session(t, o), native(t, o)
	for _, name := range []string{"goods:1", "goods:2", "goods:3", "goods:4"} { // in a cluster, of several nodes
		mine, theirs := a.FairMutex(name), b.FairMutex(name) // Inspect counts its waiters
		if err := mine.Lock(ctx); err != nil {
			t.Fatal(err)
		}
		if n := must(rdb.Exists(ctx, name).Result())(t); n != 1 {
			t.Errorf("go-redis does not see the lock on %s", name)
		}
		got := make(chan error, 1)
		go func() { got <- theirs.Lock(ctx) }()
		redistest.Eventually(t, patience, "the other session to wait", func() bool {
			return must(a.Inspect(ctx, name))(t).Waiters == 1
		})
		if err := mine.Unlock(ctx); err != nil {
			t.Error(err)
		}
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		if err := theirs.Unlock(ctx); err != nil {
			t.Error(err)
		}
		if n := must(rdb.Exists(ctx, name).Result())(t); n != 0 {
			t.Errorf("%s is locked after Unlock", name)
		}
	}
}

// An authority signs certificates for 127.0.0.1.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // its certificate
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.cert, a.key, a.file, _ = a.issue(template)
	return a
}

// issue signs a certificate, or lets it sign itself if there is none yet, and writes it to a file.
func (a *authority) issue(template *x509.Certificate) (cert *x509.Certificate, key *ecdsa.PrivateKey, certFile, keyFile string) {
	a.t.Helper()
	key = must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(a.t)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der := must(x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer))(a.t)
	write := func(name, kind string, content []byte) string {
		name = filepath.Join(a.t.TempDir(), name)
		if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600); err != nil {
			a.t.Fatal(err)
		}
		return name
	}
	return must(x509.ParseCertificate(der))(a.t), key, write("cert.pem", "CERTIFICATE", der),
		write("key.pem", "EC PRIVATE KEY", must(x509.MarshalECPrivateKey(key))(a.t))
}

// leaf returns the files of a certificate for 127.0.0.1.
func (a *authority) leaf() (certFile, keyFile string) {
	a.t.Helper()
	_, _, certFile, keyFile = a.issue(&x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "leaf"},
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	return certFile, keyFile
}

// client returns the configuration of a client that has a certificate too.
func (a *authority) client() *tls.Config {
	a.t.Helper()
	trust := x509.NewCertPool()
	trust.AddCert(a.cert)
	certFile, keyFile := a.leaf()
	return &tls.Config{RootCAs: trust, Certificates: []tls.Certificate{must(tls.LoadX509KeyPair(certFile, keyFile))(a.t)}}
}

// settings are those of a server that speaks TLS on a port and demands certificates.
func (a *authority) settings(port string) []string {
	a.t.Helper()
	certFile, keyFile := a.leaf()
	return []string{"tls-port", port, "tls-cert-file", certFile, "tls-key-file", keyFile, "tls-ca-cert-file", a.file,
		"tls-auth-clients", "yes", "tls-replication", "yes"}
}

// freePort returns a port that was free a moment ago.
func freePort(t testing.TB) string {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}
