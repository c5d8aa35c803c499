// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path"
	"strings"
	"time"
)

// place is where a URL leads to.
type place struct {
	shown string // without password
	addrs []string
	opts  Options
}

// parseURL reads a URL. Its errors do not repeat it: it may contain a password,
// and where that ends in a wrong URL nobody can tell.
func parseURL(s string, opts *Options) (*place, error) {
	u, hosts, err := splitURL(s)
	if err != nil || u.Opaque != "" {
		return nil, errors.New("zklock: this is not a URL like zk://user:password@host1:2181,host2:2181/root; " +
			"write special characters of the password as %xx")
	}
	p := &place{opts: *opts}
	p.shown = u.Scheme + "://" + hosts + u.EscapedPath()
	fail := func(err error) (*place, error) { return nil, fmt.Errorf("zklock: %s: %w", p.shown, err) }
	if u.Scheme != "zk" && u.Scheme != "zks" {
		return fail(errors.New("use the scheme zk, or zks for TLS"))
	}
	if err := p.params(u.Query(), u.Scheme == "zks"); err != nil {
		return fail(err)
	}
	if err := p.hosts(hosts); err != nil {
		return fail(err)
	}
	if err := p.root(u.Path); err != nil {
		return fail(err)
	}
	if err := p.user(u.User); err != nil {
		return fail(err)
	}
	return p, nil
}

// splitURL parses a URL that may have several hosts, of which package url knows
// only one.
func splitURL(s string) (u *url.URL, hosts string, err error) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return nil, "", errors.New("no scheme")
	}
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	user := ""
	if i := strings.LastIndex(authority, "@"); i >= 0 {
		user, authority = authority[:i+1], authority[i+1:]
	}
	// A / or ? in a password ends the part of the URL that it belongs to: then an
	// @ is left over, and what is before it must not be shown, not even as a host,
	// which it looks like if the password has an @, too.
	if strings.ContainsAny(tail, "@#") {
		return nil, "", errors.New("a part of the password may be outside of it")
	}
	u, err = url.Parse(scheme + "://" + user + "hosts" + tail)
	return u, authority, err
}

// params reads the query.
func (p *place) params(q url.Values, useTLS bool) error {
	files := make(map[string]string)
	for key, values := range q {
		v := values[len(values)-1]
		var err error
		switch key {
		case "tick_time":
			p.opts.TickTime, err = time.ParseDuration(v)
		case "connect_timeout":
			p.opts.ConnectTimeout, err = time.ParseDuration(v)
		case "password_file":
			var b []byte
			b, err = os.ReadFile(v)
			p.opts.Password = strings.TrimRight(string(b), "\r\n")
		case "ca_file", "cert_file", "key_file", "server_name":
			files[key] = v
		default:
			err = errors.New("there is no such parameter: use tick_time, connect_timeout, password_file, ca_file, cert_file, key_file or server_name")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	if !useTLS {
		if len(files) > 0 || p.opts.TLS != nil {
			return errors.New("use zks:// for TLS")
		}
		return nil
	}
	return p.tls(files)
}

func (p *place) tls(files map[string]string) error {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if p.opts.TLS != nil {
		conf = p.opts.TLS.Clone()
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
	conf.ServerName = cmp.Or(files["server_name"], conf.ServerName)
	p.opts.TLS = conf
	return nil
}

// hosts reads the addresses.
func (p *place) hosts(list string) error {
	for addr := range strings.SplitSeq(list, ",") {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			host, port = strings.Trim(addr, "[]"), "2181"
		}
		if host == "" || port == "" || strings.ContainsAny(host, " []") || strings.Contains(host, ":") && net.ParseIP(host) == nil {
			return fmt.Errorf("%q is not an address: write zk://host1:2181,host2:2181", addr)
		}
		p.addrs = append(p.addrs, net.JoinHostPort(host, port))
	}
	return nil
}

// root reads the path.
func (p *place) root(s string) error {
	if s == "" {
		s = p.opts.Root
	}
	if s == "" {
		return nil
	}
	if s != "/" {
		s = strings.TrimSuffix(s, "/")
	}
	if !strings.HasPrefix(s, "/") || path.Clean(s) != s || s == "/zookeeper" || strings.HasPrefix(s, "/zookeeper/") {
		return fmt.Errorf("the root %q is not a path of ZooKeeper: write one like /pawl", s)
	}
	if s != "/" {
		for part := range strings.SplitSeq(s[1:], "/") {
			if strings.ReplaceAll(encodeName(part), "%25", "%") != part {
				return fmt.Errorf("the root %q contains a character that ZooKeeper does not accept", s)
			}
		}
	}
	p.opts.Root = s
	return nil
}

// user sets user and password: of the URL, else of the options or the file, else
// of the environment.
func (p *place) user(u *url.Userinfo) error {
	if name := u.Username(); name != "" {
		p.opts.Username = name
	}
	if password, ok := u.Password(); ok {
		p.opts.Password = password
	} else if p.opts.Password == "" && p.opts.Username != "" {
		p.opts.Password = os.Getenv(passwordEnv)
	}
	switch {
	case p.opts.Username == "" && p.opts.Password != "":
		return errors.New("there is a password without a user: write zk://user:password@host")
	case p.opts.Username != "" && p.opts.Password == "":
		return errors.New("there is a user without a password: write zk://user:password@host, or use ?password_file= or $" + passwordEnv)
	case strings.Contains(p.opts.Username, ":"):
		return errors.New("the user contains a colon, which ZooKeeper takes for the end of it")
	}
	return nil
}
