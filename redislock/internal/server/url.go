// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// Options are what a URL can say, and more that is about the connection.
type Options struct {
	Prefix             string
	MaxTTL             time.Duration
	AllowUnguarded     bool
	WaitReplicas       int
	Mode               string
	Username, Password string
	ConnectTimeout     time.Duration // 0 means DefaultConnect
	TLS                *tls.Config   // not in the URL
	TTL                time.Duration // not in the URL; 0 means pawl.DefaultTTL
}

// DefaultConnect bounds the making of a connection unless something else does.
const DefaultConnect = 5 * time.Second

// PasswordEnv names the environment variable with the password that is used
// if there is no other.
const PasswordEnv = "PAWL_REDIS_PASSWORD"

// Place is where a URL leads to.
type Place struct {
	Options        // those given to Parse, with what the URL says
	Shown   string // the URL without password
	Contact *Contact

	more   []string // addresses of further sentinels, or nodes of a cluster
	client rueidis.ClientOption
}

// Parse reads a URL. Its errors do not repeat it: it may contain a password,
// and where that ends in a wrong URL nobody can tell.
func Parse(s string, opts Options) (*Place, error) {
	u, err := url.Parse(s)
	// A / or ? in a password ends the part of the URL that it belongs to: then an
	// @ is left over, and what is before it must not be shown.
	if err != nil || u.Opaque != "" || u.User == nil && strings.Contains(s, "@") {
		return nil, errors.New("this is not a URL like redis://user:password@host:6379/0; " +
			"write special characters of the password as %xx")
	}
	p := &Place{Options: opts, Contact: &Contact{}}
	p.Shown = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil { // which may be a part of a password
		return nil, fmt.Errorf("%s: the parameters cannot be read: put & between them and write special characters as %%xx", p.Shown)
	}
	if err := p.params(query); err != nil {
		return nil, fmt.Errorf("%s: %w", p.Shown, err)
	}
	if err := p.address(u); err != nil {
		return nil, fmt.Errorf("%s: %w", p.Shown, err)
	}
	p.user(u.User)
	p.tune()
	return p, nil
}

// params reads the query.
func (p *Place) params(q url.Values) error {
	tlsFiles := make(map[string]string)
	for key, values := range q {
		v := values[len(values)-1]
		var err error
		switch key {
		case "db":
			p.client.SelectDB, err = strconv.Atoi(v)
		case "prefix":
			p.Prefix = v
		case "max_ttl":
			p.MaxTTL, err = time.ParseDuration(v)
		case "connect_timeout":
			p.ConnectTimeout, err = time.ParseDuration(v)
		case "password_file":
			p.Password, err = readPassword(v)
		case "allow_unguarded":
			p.AllowUnguarded, err = strconv.ParseBool(v)
		case "wait_replicas":
			p.WaitReplicas, err = strconv.Atoi(v)
		case "mode":
			if p.Mode = v; v != "efficiency" {
				err = fmt.Errorf("there is no mode %q: write mode=efficiency, or leave it out for correctness", driver.Shorten(v))
			}
		case "ca_file", "cert_file", "key_file", "server_name":
			tlsFiles[key] = v
		case "master_set":
			p.client.Sentinel.MasterSet = v
		case "sentinel_username":
			p.client.Sentinel.Username = v
		case "sentinel_password":
			p.client.Sentinel.Password = v
		case "sentinel_password_file":
			p.client.Sentinel.Password, err = readPassword(v)
		case "addr":
			// A dial error would show a password here.
			if strings.ContainsAny(strings.Join(values, ""), "@/") {
				err = errors.New("write host:port; user and password are those of the URL")
			}
			p.more = values
		default:
			err = errors.New("there is no such parameter: use db, prefix, max_ttl, connect_timeout, password_file, ca_file, cert_file, key_file, " +
				"server_name, addr, master_set, sentinel_username, sentinel_password, sentinel_password_file, allow_unguarded, wait_replicas or mode")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return p.certificates(tlsFiles)
}

// WithMaxTTL returns the URL with another MaxTTL. Its errors are those of Parse.
func WithMaxTTL(s string, ttl time.Duration) (string, error) {
	head, query, _ := strings.Cut(s, "?")
	q, err := url.ParseQuery(query)
	if err != nil {
		return "", errors.New("the parameters cannot be read: put & between them and write special characters as %xx")
	}
	if ttl < driver.MinTTL {
		return "", fmt.Errorf("MaxTTL %v is too short: use %v or more", ttl, driver.MinTTL)
	}
	q.Set("max_ttl", ttl.String())
	return head + "?" + q.Encode(), nil
}

func readPassword(file string) (string, error) {
	b, err := os.ReadFile(file)
	return strings.TrimRight(string(b), "\r\n"), err
}

func (p *Place) certificates(files map[string]string) error {
	if len(files) == 0 {
		return nil
	}
	conf := &tls.Config{}
	if p.TLS != nil {
		conf = p.TLS.Clone()
	}
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
	if name := files["server_name"]; name != "" {
		conf.ServerName = name
	}
	p.TLS = conf
	return nil
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
	host := cmp.Or(u.Hostname(), "localhost")
	set := p.client.Sentinel.MasterSet
	port := "6379"
	if set != "" {
		port = "26379"
	}
	p.client.InitAddress = []string{net.JoinHostPort(host, cmp.Or(u.Port(), port))}
	for _, addr := range p.more {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			addr = net.JoinHostPort(addr, port)
		}
		p.client.InitAddress = append(p.client.InitAddress, addr)
	}
	if u.Scheme == "rediss" {
		p.client.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		if p.TLS != nil {
			p.client.TLSConfig = p.TLS.Clone()
		}
		if p.client.TLSConfig.ServerName == "" && set == "" {
			p.client.TLSConfig.ServerName = host
		}
	} else if p.TLS != nil {
		return errors.New("use rediss:// for TLS")
	}
	if db := strings.Trim(u.Path, "/"); db != "" {
		n, err := strconv.Atoi(db)
		if err != nil || n < 0 {
			return fmt.Errorf("%q is not the number of a database", db)
		}
		p.client.SelectDB = n
	}
	return nil
}

// user sets user and password: of the URL, else of the options or the file, else
// of the environment.
func (p *Place) user(u *url.Userinfo) {
	p.client.Username, p.client.Password = p.Username, p.Password
	if name := u.Username(); name != "" {
		p.client.Username = name
	}
	if password, ok := u.Password(); ok {
		p.client.Password = password
	} else if p.client.Password == "" {
		p.client.Password = os.Getenv(PasswordEnv)
	}
}

// tune sets how the connection is used. There is one for all requests and one
// more while scripts are loaded. A request that is given up must not cost it, as
// its release has to follow it there. A link that does not answer is given up
// within a third of a TTL, so that time is left to renew on a new one.
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
	c.ConnWriteTimeout = min(max(ttl/4, 500*time.Millisecond), 5*time.Second)
	c.ForceSingleClient = true
	c.AlwaysPipelining = true
	c.PipelineMultiplex = -1
	c.DisableCache = true
	c.DisableRetry = true
	c.ReadBufferEachConn, c.WriteBufferEachConn = 1<<16, 1<<16
	c.ClientName = "pawl"
	// Without the interval a client that misses one message of the sentinels stays
	// with a master that was replaced.
	c.Sentinel.Dialer, c.Sentinel.TLSConfig, c.Sentinel.TopologyRefreshInterval = c.Dialer, c.TLSConfig, time.Second
	c.Sentinel.Dialer.Resolver = sentinels
	c.DialCtxFn = p.Contact.dial
	if strings.HasPrefix(p.Shown, "unix") {
		c.DialCtxFn = p.Contact.dialUnix
	}
}
