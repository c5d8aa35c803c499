// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

func init() {
	pawl.Register("etcd", openByURL)
	pawl.Register("etcds", openByURL)
}

// openByURL opens a store for pawl.Open.
func openByURL(ctx context.Context, url string, opts *pawl.Options) (driver.Store, error) {
	return NewStore(ctx, url, &Options{Options: *opts})
}

// address is a parsed URL.
type address struct {
	hosts string // for error texts
	opts  Options
	urls  []string
}

var errURL = errors.New("etcdlock: this is not a URL like etcd://user:password@host1:2379,host2:2379/prefix; " +
	"a port is 1 to 65535; write special characters of the password as %xx")

// parseURL reads a URL. Its errors do not repeat the URL, which may contain a password.
func parseURL(s string, opts *Options) (*address, error) {
	u, err := storekit.ParseURL(s)
	if err != nil {
		return nil, errURL
	}
	a := &address{opts: *opts}
	a.opts.Prefix = cmp.Or(strings.TrimPrefix(u.Path, "/"), a.opts.Prefix)
	if err := a.endpoints(u.Scheme, u.Host); err != nil {
		return nil, err
	}
	if err := a.params(u.RawQuery); err != nil {
		return nil, fmt.Errorf("etcdlock: %s: %w", a.hosts, err)
	}
	storekit.ReadUser(u.User, passwordEnv, &a.opts.Username, &a.opts.Password)
	return a, nil
}

// endpoints reads the hosts.
func (a *address) endpoints(scheme, hosts string) error {
	web := map[string]string{"etcd": "http", "etcds": "https"}[scheme]
	if web == "" {
		return errors.New("etcdlock: use a URL with the scheme etcd or etcds")
	}
	addrs, ok := storekit.Addrs(cmp.Or(hosts, "localhost"), "2379")
	if !ok {
		return errURL
	}
	for _, addr := range addrs {
		a.urls = append(a.urls, web+"://"+addr)
	}
	a.hosts = strings.Join(addrs, ", ")
	switch {
	case web == "https" && a.opts.TLS == nil:
		a.opts.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	case web == "http" && a.opts.TLS != nil:
		return errors.New("etcdlock: use etcds:// for TLS")
	}
	return nil
}

// params reads the query into the options.
func (a *address) params(query string) error {
	var files storekit.TLSFiles
	err := storekit.ReadQuery(query, append([]storekit.Param{
		storekit.Set("pattern", &a.opts.Pattern, storekit.Text),
		storekit.Set("connect_timeout", &a.opts.ConnectTimeout, storekit.Duration),
		storekit.Set("password_file", &a.opts.Password, storekit.ReadPassword),
	}, files.Params()...)...)
	switch {
	case err != nil || !files.Given:
		return err
	case a.opts.TLS == nil:
		return errors.New("use etcds:// for TLS")
	}
	a.opts.TLS, err = files.Apply(a.opts.TLS)
	return err
}

// windowSize is the number of bytes that the server may send before the client confirms them. By default gRPC
// measures a good size with a ping after each answer.
const windowSize = 4 << 20

// config returns the settings of the etcd client. A dead connection must be closed early enough to renew the
// leases over another. gRPC pings at most every 10 s, so links closes dead connections, too.
func (a *address) config(s *store) clientv3.Config {
	ttl := cmp.Or(a.opts.TTL, pawl.DefaultTTL)
	return clientv3.Config{
		Endpoints:            a.urls,
		TLS:                  a.opts.TLS,
		DialTimeout:          s.connect,
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: min(max(ttl/3, time.Second), 5*time.Second),
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

// authority sets the name that the server's certificate must have. gRPC ignores the name in a *tls.Config, and by
// default takes the host of the address.
func (a *address) authority() grpc.DialOption {
	if a.opts.TLS == nil || a.opts.TLS.ServerName == "" {
		return grpc.EmptyDialOption{}
	}
	return grpc.WithAuthority(a.opts.TLS.ServerName)
}
