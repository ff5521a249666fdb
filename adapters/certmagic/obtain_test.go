package relockcertmagic_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/relocktest"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
)

const domain = "example.com"

func TestMain(m *testing.M) {
	redistest.RunChild(map[string]func([]string){"obtain": obtain})
	goleak.VerifyTestMain(m, redistest.Leaks()...)
}

// issuer is one whose certificates the processes count, by a counter that is read and written back.
type issuer func(ctx context.Context) error

func (issuer) IssuerKey() string { return "test" }

func (i issuer) Issue(ctx context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	if err := i(ctx); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: csr.DNSNames,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, csr.PublicKey, key)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: der})
	return &certmagic.IssuedCertificate{Certificate: out.Bytes()}, err
}

// config returns what a process has, and what ends it.
func config(dir string, s *relock.Session, i issuer) (*certmagic.Config, func()) {
	var c *certmagic.Config
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return c, nil },
		Logger:           zap.NewNop(),
	})
	template := certmagic.Config{Issuers: []certmagic.Issuer{i}, Logger: zap.NewNop()}
	lockBy(&template, &certmagic.FileStorage{Path: dir}, s)
	c = certmagic.New(cache, template)
	return c, cache.Stop
}

// obtain is a process that needs a certificate. It prints "issuing" when it asks for one, which takes as long as
// args[2] says, and "done" when it has one.
func obtain(args []string) {
	takes, err := time.ParseDuration(args[2])
	kit.ChildCheck(err)
	session, client := kit.ChildSession(args[0], relock.WithPrefix("lock:"), relock.WithLease(2*time.Second))
	ctx := context.Background()
	do := func(c rueidis.Completed) rueidis.RedisResult { return client.Do(ctx, c) }
	c, _ := config(args[1], session, func(ctx context.Context) error {
		issued, _ := do(client.B().Get().Key("issued").Build()).AsInt64()
		fmt.Println("issuing")
		time.Sleep(takes)
		return do(client.B().Set().Key("issued").Value(fmt.Sprint(issued + 1)).Build()).Error()
	})
	fmt.Println("ready")
	var line string
	_, _ = fmt.Scanln(&line)
	kit.ChildCheck(c.ObtainCertAsync(ctx, domain))
	_, err = c.Storage.Load(ctx, certmagic.StorageKeys.SiteCert("test", domain))
	kit.ChildCheck(err)
	fmt.Println("done")
}

func issued(t *testing.T, server *redistest.Server) any {
	n, err := server.Do("GET", "issued")
	require.NoError(t, err)
	return n
}

func TestOneOfSeveralProcessesObtainsACertificate(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	kit.AtOnce(t, 4, "obtain", server.Addr(), t.TempDir(), "100ms")
	require.Equal(t, "1", issued(t, server))
}

// The process that obtains the certificate is killed. Another one does, at the end of the lease.
func TestAnotherObtainsWhenAProcessIsKilled(t *testing.T) {
	t.Parallel()
	server, dir := redistest.Start(t), t.TempDir()
	start := func(takes string) *redistest.Proc {
		p := redistest.Child(t, "obtain", server.Addr(), dir, takes)
		_, err := p.Expect("ready", kit.Soon)
		require.NoError(t, err)
		require.NoError(t, p.Send("go"))
		return p
	}
	dies := start("1h")
	_, err := dies.Expect("issuing", kit.Soon)
	require.NoError(t, err)
	next := start("1ms")
	dies.Kill()
	_, err = next.Expect("done", kit.Soon)
	require.NoError(t, err)
	require.Equal(t, "1", issued(t, server))
}

// A lock is lost while a certificate is asked for, which fails. certmagic asks for none without it, and goes on with
// it at the next attempt.
func TestNoAttemptIsMadeWithoutTheLock(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := relocktest.New(t)
		const name = "issue_cert_" + domain
		attempts, start := []time.Duration(nil), time.Now()
		var l storage
		c, stop := config(dir, r.Session(), func(ctx context.Context) error {
			attempts = append(attempts, time.Since(start).Round(time.Second))
			if len(attempts) == 1 {
				r.Lose(name)
				return errors.New("try again")
			}
			return l.RenewLockLease(ctx, name, 0)
		})
		defer stop()
		l = c.Storage.(storage)
		require.NoError(t, c.ObtainCertAsync(t.Context(), domain))
		// certmagic waits for 1 and 2 minutes between attempts.
		require.Equal(t, []time.Duration{0, 3 * time.Minute}, attempts)
		require.ErrorIs(t, l.Unlock(t.Context(), name), relock.ErrNotHeld)
	})
}
