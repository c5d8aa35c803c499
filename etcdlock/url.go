// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/pawl-go/pawl"
)

// address is what a URL comes to.
type address struct {
	hosts string // for people
	opts  Options
	urls  []string
}

var errURL = errors.New("etcdlock: this is not a URL like etcd://user:password@host1:2379,host2:2379/prefix; " +
	"write special characters of the password as %xx")

// parseURL reads a URL. Its errors do not repeat it: it may contain a password, and
// where that ends in a wrong URL nobody can tell.
func parseURL(s string, opts *Options) (*address, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return nil, errURL
	}
	// Package url knows of one host only.
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	who, hosts := "", rest[:end]
	if i := strings.LastIndex(hosts, "@"); i >= 0 {
		who, hosts = hosts[:i+1], hosts[i+1:]
	}
	u, err := url.Parse(scheme + "://" + who + "host" + rest[end:])
	// A / or ? in a password ends the part of the URL that it belongs to: then an @
	// is left over, and what is before it must not be shown, not even as a host, which
	// it looks like if the password has an @, too.
	if err != nil || strings.Contains(rest[end:], "@") || u.Fragment != "" {
		return nil, errURL
	}
	a := &address{opts: *opts}
	a.opts.Prefix = cmp.Or(strings.TrimPrefix(u.Path, "/"), a.opts.Prefix)
	if err := a.endpoints(u.Scheme, hosts); err != nil {
		return nil, err
	}
	if err := a.params(u.Query()); err != nil {
		return nil, fmt.Errorf("etcdlock: %s: %w", a.hosts, err)
	}
	a.user(u.User)
	return a, nil
}

// endpoints reads the hosts.
func (a *address) endpoints(scheme, hosts string) error {
	web := map[string]string{"etcd": "http", "etcds": "https"}[scheme]
	if web == "" {
		return errors.New("etcdlock: use a URL with the scheme etcd or etcds")
	}
	var shown []string
	for host := range strings.SplitSeq(cmp.Or(hosts, "localhost"), ",") {
		one, err := url.Parse("etcd://" + host)
		if err != nil || one.Hostname() == "" {
			return errURL
		}
		addr := net.JoinHostPort(one.Hostname(), cmp.Or(one.Port(), "2379"))
		a.urls, shown = append(a.urls, web+"://"+addr), append(shown, addr)
	}
	a.hosts = strings.Join(shown, ", ")
	switch {
	case web == "https" && a.opts.TLS == nil:
		a.opts.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	case web == "http" && a.opts.TLS != nil:
		return errors.New("etcdlock: use etcds:// for TLS")
	}
	return nil
}

// params reads the query.
func (a *address) params(q url.Values) error {
	files := make(map[string]string)
	for key, values := range q {
		v := values[len(values)-1]
		var err error
		switch key {
		case "connect_timeout":
			a.opts.ConnectTimeout, err = time.ParseDuration(v)
		case "password_file":
			var b []byte
			b, err = os.ReadFile(v)
			a.opts.Password = strings.TrimRight(string(b), "\r\n")
		case "ca_file", "cert_file", "key_file", "server_name":
			files[key] = v
		default:
			err = errors.New("there is no such parameter: use connect_timeout, password_file, ca_file, cert_file, key_file or server_name")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return a.tls(files)
}

func (a *address) tls(files map[string]string) error {
	if len(files) == 0 {
		return nil
	}
	if a.opts.TLS == nil {
		return errors.New("use etcds:// for TLS")
	}
	conf := a.opts.TLS.Clone()
	if ca := files["ca_file"]; ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return err
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("ca_file: %s contains no certificate", ca)
		}
	}
	if files["cert_file"] != "" || files["key_file"] != "" {
		cert, err := tls.LoadX509KeyPair(files["cert_file"], files["key_file"])
		if err != nil {
			return err
		}
		conf.Certificates = []tls.Certificate{cert}
	}
	conf.ServerName = cmp.Or(files["server_name"], conf.ServerName)
	a.opts.TLS = conf
	return nil
}

// user sets user and password: of the URL, else of the options or the file, else
// of the environment.
func (a *address) user(u *url.Userinfo) {
	a.opts.Username = cmp.Or(u.Username(), a.opts.Username)
	if password, ok := u.Password(); ok {
		a.opts.Password = password
	} else {
		a.opts.Password = cmp.Or(a.opts.Password, os.Getenv(passwordEnv))
	}
}

// windowSize is how much the server may send before it hears from us. gRPC would measure
// what is best, with a ping after each answer.
const windowSize = 4 << 20

// config returns the settings of the client. A link that does not answer must be
// given up early enough that time is left to renew on another: the client's own
// pings come every 10 s at most, so links looks after it as well.
func (a *address) config(s *store) clientv3.Config {
	ttl := cmp.Or(a.opts.TTL, pawl.DefaultTTL)
	return clientv3.Config{
		Endpoints:            a.urls,
		TLS:                  a.opts.TLS,
		DialTimeout:          s.connect,
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: min(max(ttl/6, time.Second), 5*time.Second),
		Logger:               zap.NewNop(),
		DialOptions: append(s.session.options(),
			a.authority(),
			grpc.WithContextDialer(s.links.dial),
			grpc.WithStaticStreamWindowSize(windowSize),
			grpc.WithStaticConnWindowSize(windowSize),
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
				MinConnectTimeout: s.connect,
			}),
		),
	}
}

// session returns one if there is a user with a password.
func (a *address) session() *session {
	if a.opts.Username == "" || a.opts.Password == "" {
		return nil
	}
	return &session{username: a.opts.Username, password: a.opts.Password}
}

// authority names the server whose certificate is asked for. gRPC does not look at the
// name in a *tls.Config: it takes that of the address unless it is told another.
func (a *address) authority() grpc.DialOption {
	if a.opts.TLS == nil || a.opts.TLS.ServerName == "" {
		return grpc.EmptyDialOption{}
	}
	return grpc.WithAuthority(a.opts.TLS.ServerName)
}
