// Example has two processes that need the same certificates, one every other second. One of them obtains each, and
// the other finds it in the storage that they share.
//
//	go run ./example    # both, on a Redis in memory and a temporary directory
//
//	go run ./example -redis localhost:6379 -dir /tmp/certificates    # one; run it in several terminals
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log"
	"math/big"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	relockcertmagic "github.com/relock-go/relock/adapters/certmagic"
	"github.com/relock-go/relock/adapters/internal/demo"
)

func main() { demo.Main("certmagic", run) }

// storage has files and the locks of relock, and not those of the files.
type storage struct {
	*relockcertmagic.Locker
	data
}

type data struct{ certmagic.Storage }

func run(ctx context.Context, p demo.Process) error {
	var config *certmagic.Config
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return config, nil },
		Logger:           zap.NewNop(),
	})
	defer cache.Stop()
	config = certmagic.New(cache, certmagic.Config{
		Storage: storage{relockcertmagic.NewLocker(p.Session), data{&certmagic.FileStorage{Path: p.Dir}}},
		Issuers: []certmagic.Issuer{authority{}}, // in the place of Let's Encrypt
		Logger:  zap.NewNop(),
	})
	const period = 2 * time.Second
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(time.Now().Truncate(period).Add(period))):
		}
		domain := time.Now().Format("t150405.example.com")
		if err := config.ObtainCertAsync(ctx, domain); err != nil && ctx.Err() == nil {
			return err
		}
		log.Printf("%s has its certificate", domain)
	}
}

// authority issues certificates that nobody trusts.
type authority struct{}

func (authority) IssuerKey() string { return "example" }

func (authority) Issue(_ context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	log.Printf("%s: obtaining a certificate", csr.DNSNames[0])
	time.Sleep(500 * time.Millisecond)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: csr.DNSNames,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, csr.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}
