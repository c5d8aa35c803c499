// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"
)

// signed returns a certificate for localhost that ends then, and the pool with its authority.
func signed(t *testing.T, until time.Time) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, DNSNames: []string{"localhost"},
		NotBefore: until.Add(-2 * time.Hour), NotAfter: until, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, text, text, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// TestTLSHint: each way in which certificates fail has advice of its own.
func TestTLSHint(t *testing.T) {
	cert, authority := signed(t, time.Now().Add(time.Hour))
	old, oldAuthority := signed(t, time.Now().Add(-time.Hour))
	other, _ := signed(t, time.Now().Add(time.Hour))
	server := &tls.Config{Certificates: []tls.Certificate{cert}}
	wants := &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority}
	older := wants.Clone()
	older.MaxVersion = tls.VersionTLS12
	for name, c := range map[string]struct {
		server, client *tls.Config
		want           string
	}{
		"unknown":            {server, &tls.Config{ServerName: "localhost"}, "?ca_file="},
		"another name":       {server, &tls.Config{ServerName: "elsewhere", RootCAs: authority}, "?server_name="},
		"an address":         {server, &tls.Config{ServerName: "127.0.0.1", RootCAs: authority}, "?server_name="},
		"expired":            {&tls.Config{Certificates: []tls.Certificate{old}}, &tls.Config{ServerName: "localhost", RootCAs: oldAuthority}, "renew the server's certificate"},
		"none of the client": {wants, &tls.Config{ServerName: "localhost", RootCAs: authority}, "the server wants a certificate of the client: name it with ?cert_file="},
		"none, TLS 1.2":      {older, &tls.Config{ServerName: "localhost", RootCAs: authority}, "?cert_file="},
		"another client":     {wants, &tls.Config{ServerName: "localhost", RootCAs: authority, Certificates: []tls.Certificate{other}}, "?cert_file="},
	} {
		l, err := tls.Listen("tcp", "127.0.0.1:0", c.server)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if s, err := l.Accept(); err == nil {
				_, _ = s.Write([]byte("x"))
				_, _ = s.Read(make([]byte, 1)) // a client that still sends would be reset
				s.Close()
			}
		}()
		ours, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = ours.SetDeadline(time.Now().Add(time.Minute))
		conn := tls.Client(ours, c.client)
		err = conn.Handshake()
		if err == nil { // in TLS 1.3 the server says later what it thinks of the client
			_, err = conn.Read(make([]byte, 1))
		}
		conn.Close()
		l.Close()
		if err == nil {
			t.Errorf("%s: no error", name)
		} else if got := TLSHint(err); !strings.Contains(got, c.want) {
			t.Errorf("%s: %v: %q; want %q", name, err, got, c.want)
		}
	}
	if got := TLSHint(errors.New("connection refused")); got != "" {
		t.Errorf("%q for what is not of TLS", got)
	}
}
