// SPDX-License-Identifier: Apache-2.0

package adapttest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/pawl-go/pawl/adapt"
	"github.com/pawl-go/pawl/memlock"
)

// storage is what the documentation of CertMagicLocker advises.
type storage struct {
	files
	*adapt.CertMagicLocker
}

type files struct{ certmagic.Storage }

// watched counts how often certmagic renews the lease of a lock.
type watched struct {
	storage
	renewals *atomic.Int64
}

func (w watched) RenewLockLease(ctx context.Context, name string, d time.Duration) error {
	w.renewals.Add(1)
	return w.storage.RenewLockLease(ctx, name, d)
}

var (
	_ certmagic.Storage          = storage{}
	_ certmagic.TryLocker        = storage{}
	_ certmagic.LockLeaseRenewer = storage{}
)

// authority is an issuer of certificates that needs no network. It counts how many
// it issues.
type authority struct {
	key    *ecdsa.PrivateKey
	issued atomic.Int64
}

func (*authority) IssuerKey() string { return "test" }

func (a *authority) Issue(_ context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	time.Sleep(50 * time.Millisecond) // others may come in the meantime
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.issued.Add(1)),
		DNSNames:     csr.DNSNames,
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(90 * 24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, csr.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// servers returns the configurations of n servers with one storage and one
// authority.
func servers(t *testing.T, n int) (all []*certmagic.Config, ca *authority, renewals *atomic.Int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca, renewals = &authority{key: key}, new(atomic.Int64)
	var store memlock.Store
	dir := t.TempDir()
	for range n {
		config := certmagic.Config{
			Storage: watched{storage{
				files{&certmagic.FileStorage{Path: dir}},
				&adapt.CertMagicLocker{Locks: open(t, &store), Prefix: "tls/"},
			}, renewals},
			Issuers: []certmagic.Issuer{ca},
			Logger:  zap.NewNop(),
		}
		var cache *certmagic.Cache
		cache = certmagic.NewCache(certmagic.CacheOptions{
			GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return certmagic.New(cache, config), nil },
			Logger:           zap.NewNop(),
		})
		t.Cleanup(cache.Stop)
		all = append(all, certmagic.New(cache, config))
	}
	return all, ca, renewals
}

// Four servers want the same certificate at once. It is issued once.
func TestCertMagicIssuesOnce(t *testing.T) {
	for _, how := range []struct {
		name   string
		obtain func(*certmagic.Config, context.Context, string) error
		renews bool // the lease of the lock, before each attempt
	}{
		{"sync", (*certmagic.Config).ObtainCertSync, false},
		{"async", (*certmagic.Config).ObtainCertAsync, true},
	} {
		t.Run(how.name, func(t *testing.T) {
			all, ca, renewals := servers(t, 4)
			var wg sync.WaitGroup
			for _, server := range all {
				wg.Go(func() {
					if err := how.obtain(server, t.Context(), "example.com"); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if n := ca.issued.Load(); n != 1 {
				t.Errorf("%d certificates were issued, want 1", n)
			}
			if n := renewals.Load(); (n > 0) != how.renews {
				t.Errorf("%d renewals of a lock's lease", n)
			}
			dir := all[0].Storage.(watched).Storage.(*certmagic.FileStorage).Path
			matches, err := filepath.Glob(filepath.Join(dir, "locks", "*"))
			if err != nil || len(matches) > 0 {
				t.Errorf("the files' own locks were used: %v (%v)", matches, err)
			}
		})
	}
}
