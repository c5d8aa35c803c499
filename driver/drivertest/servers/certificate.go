// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Certificate writes a self-signed certificate, its key, and a file with both, and returns
// their paths. The certificate is for names, or for 127.0.0.1 without names.
func Certificate(t T, names ...string) (cert, key, both string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%v", err)
		}
	}
	var addrs []net.IP
	if names == nil {
		addrs = append(addrs, net.IPv4(127, 0, 0, 1))
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: addrs, DNSNames: names, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	must(err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	must(err)
	dir := t.TempDir()
	write := func(name string, blocks ...*pem.Block) string {
		var data []byte
		for _, b := range blocks {
			data = append(data, pem.EncodeToMemory(b)...)
		}
		path := filepath.Join(dir, name)
		must(os.WriteFile(path, data, 0o600))
		return path
	}
	public, hidden := &pem.Block{Type: "CERTIFICATE", Bytes: der}, &pem.Block{Type: "PRIVATE KEY", Bytes: secret}
	return write("cert.pem", public), write("key.pem", hidden), write("both.pem", hidden, public)
}
