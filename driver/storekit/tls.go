// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// TLSHint says what to do about a certificate that one side has refused, or returns "". It goes by the text
// of err, because some clients keep only that.
func TLSHint(err error) string {
	text := err.Error()
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
	}
	switch {
	case has("remote error: tls: certificate required", "remote error: tls: bad certificate"):
		return "the server wants a certificate of the client: name it with ?cert_file= and ?key_file="
	case has("remote error: tls: handshake failure"):
		return "does the server want a certificate of the client? Name it with ?cert_file= and ?key_file="
	case has("remote error: tls: unknown certificate authority", "remote error: tls: expired certificate", "remote error: tls: revoked certificate",
		"remote error: tls: unsupported certificate", "remote error: tls: unknown certificate"):
		return "the server refuses the certificate of the client: name another one with ?cert_file= and ?key_file="
	case has("certificate has expired or is not yet valid"):
		return "renew the server's certificate, or set the clock of this machine"
	case has("certificate is valid for", "certificate is not valid for", "cannot validate certificate for"):
		return "is this the right server? If it is, name what is in its certificate with ?server_name="
	case has("x509"):
		return "name the authority that signed the server's certificate with ?ca_file="
	}
	return ""
}

// DialHint says what to do about a failed connection to a server, or returns "". scheme is the scheme of URLs
// without TLS; with TLS it gets an s.
func DialHint(err error, scheme string) string {
	text := err.Error()
	switch hint := TLSHint(err); {
	case strings.Contains(text, "connection refused"):
		return "is the server running, and is this its address?"
	case hint != "":
		return hint
	case strings.Contains(text, "first record does not look like a TLS"):
		return fmt.Sprintf("this port has no TLS: use %s:// instead of %[1]ss://", scheme)
	case strings.Contains(text, "no such host"):
		return "check the name of the host"
	case errors.Is(err, context.DeadlineExceeded), strings.Contains(text, "i/o timeout"):
		return "no answer in time: is a firewall in between?"
	}
	return ""
}

// TLSFiles are the TLS parameters of a URL.
type TLSFiles struct {
	Given bool // the URL has one of them, even if it is empty

	ca, cert, key, server string
}

// Params returns the parameters for ReadQuery.
func (f *TLSFiles) Params() []Param {
	param := func(name string, to *string) Param {
		return Param{Name: name, Read: func(v string) error {
			f.Given, *to = true, v
			return nil
		}}
	}
	return []Param{param("ca_file", &f.ca), param("cert_file", &f.cert), param("key_file", &f.key), param("server_name", &f.server)}
}

// Apply returns a copy of conf with the parameters in it. ca_file replaces the system's
// authorities, cert_file and key_file are the client's certificate, and server_name is the
// name that the server's certificate must have. conf may be nil.
func (f *TLSFiles) Apply(conf *tls.Config) (*tls.Config, error) {
	if conf == nil {
		conf = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	conf = conf.Clone()
	if f.ca != "" {
		pem, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, err
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca_file: %s contains no certificate", f.ca)
		}
	}
	if f.cert != "" || f.key != "" {
		cert, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, err
		}
		conf.Certificates = []tls.Certificate{cert}
	}
	conf.ServerName = cmp.Or(f.server, conf.ServerName)
	return conf, nil
}
