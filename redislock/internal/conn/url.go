// SPDX-License-Identifier: Apache-2.0

package conn

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// Options are the settings that a URL can contain, and further settings of the connection.
type Options struct {
	Prefix, Pattern    string
	MaxTTL             time.Duration
	AllowUnguarded     bool
	AssumeNew          bool
	WaitReplicas       int
	Mode               string
	Username, Password string
	ConnectTimeout     time.Duration // 0 means DefaultConnect
	TLS                *tls.Config   // not in the URL
	TTL                time.Duration // not in the URL; 0 means pawl.DefaultTTL

	// Not in the URL either; see redislock.Options.
	Dial        func(ctx context.Context, network, addr string) (net.Conn, error)
	Credentials func(ctx context.Context, addr string) (username, password string, err error)
}

// DefaultConnect is the default of Options.ConnectTimeout.
const DefaultConnect = 5 * time.Second

// PasswordEnv is the environment variable with the password, if the URL and the options
// have none.
const PasswordEnv = "PAWL_REDIS_PASSWORD"

// Place is the server or cluster of a URL, and how to connect to it.
type Place struct {
	Options        // of Parse, with the settings of the URL
	Shown   string // the URL, without user, password and parameters
	Contact *Contact

	more   []string // addr parameters: further sentinels, or nodes of a cluster
	client rueidis.ClientOption
}

// Parse reads a URL. If the URL is not valid, the error does not repeat it, since it may
// contain a password, and it is not certain where the password ends.
func Parse(s string, opts Options) (*Place, error) {
	u, err := storekit.ParseURL(s)
	if err != nil {
		return nil, errors.New("this is not a URL like redis://user:password@host:6379/0; " +
			"a port is 1 to 65535; write special characters of the password as %xx")
	}
	p := &Place{Options: opts, Contact: &Contact{own: opts.Dial}}
	p.Shown = u.Scheme + "://" + u.Host + u.EscapedPath()
	if err := p.params(u.RawQuery); err != nil {
		return nil, fmt.Errorf("%s: %w", p.Shown, err)
	}
	if err := p.address(u); err != nil {
		return nil, fmt.Errorf("%s: %w", p.Shown, err)
	}
	p.client.Username, p.client.Password = p.Username, p.Password
	storekit.ReadUser(u.User, PasswordEnv, &p.client.Username, &p.client.Password)
	p.tune()
	return p, nil
}

// params reads the query.
func (p *Place) params(query string) error {
	var files storekit.TLSFiles
	params := append([]storekit.Param{
		storekit.Set("db", &p.client.SelectDB, storekit.Int),
		storekit.Set("prefix", &p.Prefix, storekit.Text),
		storekit.Set("pattern", &p.Pattern, storekit.Text),
		storekit.Set("max_ttl", &p.MaxTTL, storekit.Duration),
		storekit.Set("connect_timeout", &p.ConnectTimeout, storekit.Duration),
		storekit.Set("password_file", &p.Password, storekit.ReadPassword),
		{Name: "addr", Values: &p.more},
		storekit.Set("master_set", &p.client.Sentinel.MasterSet, storekit.Text),
		storekit.Set("sentinel_username", &p.client.Sentinel.Username, storekit.Text),
		storekit.Set("sentinel_password", &p.client.Sentinel.Password, storekit.Text),
		storekit.Set("sentinel_password_file", &p.client.Sentinel.Password, storekit.ReadPassword),
		storekit.Set("allow_unguarded", &p.AllowUnguarded, storekit.Bool),
		storekit.Set("assume_new", &p.AssumeNew, storekit.Bool),
		storekit.Set("wait_replicas", &p.WaitReplicas, storekit.Int),
		storekit.Set("mode", &p.Mode, mode),
	}, files.Params()...)
	if err := storekit.ReadQuery(query, params...); err != nil {
		return err
	}
	// A dial error would show a password in an address.
	if strings.ContainsAny(strings.Join(p.more, ""), "@/") {
		return errors.New("addr: write host:port; user and password are those of the URL")
	}
	if !files.Given {
		return nil
	}
	var err error
	p.TLS, err = files.Apply(p.TLS)
	return err
}

func mode(v string) (string, error) {
	if v != "efficiency" {
		return "", fmt.Errorf("there is no mode %q: write mode=efficiency, or leave it out for correctness", driver.Shorten(v))
	}
	return v, nil
}

// WithMaxTTL returns the URL with max_ttl set to ttl. It returns an error if the query cannot be
// parsed, or ttl is too short.
func WithMaxTTL(s string, ttl time.Duration) (string, error) {
	head, query, _ := strings.Cut(s, "?")
	q, err := url.ParseQuery(query)
	if err != nil {
		return "", storekit.ErrQuery
	}
	if ttl < driver.MinTTL {
		return "", fmt.Errorf("MaxTTL %v is too short: use %v or more", ttl, driver.MinTTL)
	}
	q.Set("max_ttl", ttl.String())
	return head + "?" + q.Encode(), nil
}

// address reads scheme, host and path.
func (p *Place) address(u *url.URL) error {
	switch u.Scheme {
	case "unix":
		if u.Path == "" || u.Host != "" {
			return errors.New("write unix:///path/to/socket")
		}
		p.client.InitAddress = []string{u.Path}
		return nil
	case "redis", "rediss":
	default:
		return fmt.Errorf("the scheme is %q: use redis, rediss or unix", u.Scheme)
	}
	if strings.Contains(u.Host, ",") {
		return errors.New("name one host, and further nodes of a cluster, or sentinels, with ?addr=; independent servers are a store of package redlock (redlock://)")
	}
	host, port := cmp.Or(u.Hostname(), "localhost"), "6379"
	if p.client.Sentinel.MasterSet != "" {
		port = "26379"
	}
	p.client.InitAddress = []string{net.JoinHostPort(host, cmp.Or(u.Port(), port))}
	for _, addr := range p.more {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			addr = net.JoinHostPort(addr, port)
		}
		p.client.InitAddress = append(p.client.InitAddress, addr)
	}
	if db := strings.Trim(u.Path, "/"); db != "" {
		n, err := strconv.Atoi(db)
		if err != nil || n < 0 {
			return fmt.Errorf("%q is not the number of a database", db)
		}
		p.client.SelectDB = n
	}
	return p.secure(u.Scheme == "rediss", host)
}

// secure sets the TLS configuration for connections to host.
func (p *Place) secure(wanted bool, host string) error {
	switch {
	case p.Options.Dial != nil && (wanted || p.TLS != nil):
		return errors.New("Dial makes the connections, with TLS if that is needed: use redis://, and no TLS beside it")
	case !wanted && p.TLS != nil:
		return errors.New("use rediss:// for TLS")
	case !wanted:
		return nil
	case p.TLS != nil:
		p.client.TLSConfig = p.TLS.Clone()
	default:
		p.client.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if p.client.TLSConfig.ServerName == "" && p.client.Sentinel.MasterSet == "" {
		p.client.TLSConfig.ServerName = host
	}
	return nil
}

// ask makes the client call Credentials for each new connection to addr.
func (p *Place) ask(c *rueidis.ClientOption, addr string) {
	if p.Credentials == nil {
		return
	}
	timeout := c.Dialer.Timeout
	c.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		username, password, err := p.Credentials(ctx, addr)
		if err != nil {
			return rueidis.AuthCredentials{}, dialError{fmt.Errorf("the credentials: %w", err)}
		}
		return rueidis.AuthCredentials{Username: username, Password: password}, nil
	}
}

// tune sets how the client uses its connections. It has one for all requests, and a second
// one while it loads scripts. Giving up a request must not close the connection, as the
// release has to follow the request there. A renewal waits for a third of the TTL. So the
// client gives a connection up if an answer takes a little longer than that: early enough
// to renew on a new connection.
func (p *Place) tune() {
	ttl := p.TTL
	if ttl == 0 {
		ttl = pawl.DefaultTTL
	}
	c := &p.client
	c.Dialer.Timeout = DefaultConnect
	if p.ConnectTimeout > 0 {
		c.Dialer.Timeout = p.ConnectTimeout
	}
	c.Dialer.KeepAlive = min(max(ttl/10, 100*time.Millisecond), time.Second)
	c.ConnWriteTimeout = min(max(ttl*2/5, 500*time.Millisecond), 2*pawl.DefaultTTL/5)
	c.ForceSingleClient = true
	c.AlwaysPipelining = true
	c.PipelineMultiplex = -1
	c.DisableCache = true
	c.DisableRetry = true
	c.RingScaleEachConn = ringScale
	c.ReadBufferEachConn, c.WriteBufferEachConn = 1<<16, 1<<16
	c.ClientName = "pawl"
	// Without the interval, a client that misses one message of the sentinels stays at a
	// master that they have replaced.
	c.Sentinel.Dialer, c.Sentinel.TLSConfig, c.Sentinel.TopologyRefreshInterval = c.Dialer, c.TLSConfig, time.Second
	c.Sentinel.Dialer.Resolver = sentinels
	p.ask(c, c.InitAddress[0])
	c.DialCtxFn = p.Contact.dial
}
