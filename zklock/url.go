// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

func init() {
	pawl.Register("zk", openByURL)
	pawl.Register("zks", openByURL)
}

// openByURL opens a store for pawl.Open.
func openByURL(ctx context.Context, url string, opts *pawl.Options) (driver.Store, error) {
	return NewStore(ctx, url, &Options{Options: *opts})
}

// place is a URL after parsing, with the options that it overrides.
type place struct {
	shown string // the URL without the password
	addrs []string
	opts  Options
}

// parseURL reads a URL. Its errors do not repeat the URL: the URL may contain a password, and if the syntax is
// wrong, nobody can tell where the password ends.
func parseURL(s string, opts *Options) (*place, error) {
	u, err := storekit.ParseURL(s)
	if err != nil {
		return nil, errors.New("zklock: this is not a URL like zk://user:password@host1:2181,host2:2181/root; " +
			"a port is 1 to 65535; write special characters of the password as %xx")
	}
	p := &place{opts: *opts}
	p.shown = u.Scheme + "://" + u.Host + u.EscapedPath()
	err = cmp.Or(p.params(u.RawQuery, u.Scheme), p.hosts(u.Host), p.root(u.Path), p.user(u.User))
	if err != nil {
		return nil, fmt.Errorf("zklock: %s: %w", p.shown, err)
	}
	return p, nil
}

// params reads the scheme and the query into the options.
func (p *place) params(query, scheme string) error {
	if scheme != "zk" && scheme != "zks" {
		return errors.New("use the scheme zk, or zks for TLS")
	}
	var files storekit.TLSFiles
	err := storekit.ReadQuery(query, append([]storekit.Param{
		storekit.Set("tick_time", &p.opts.TickTime, storekit.Duration),
		storekit.Set("connect_timeout", &p.opts.ConnectTimeout, storekit.Duration),
		storekit.Set("password_file", &p.opts.Password, storekit.ReadPassword),
	}, files.Params()...)...)
	secure := files.Given || p.opts.TLS != nil
	switch {
	case err != nil:
		return err
	case scheme == "zk" && secure:
		return errors.New("use zks:// for TLS")
	case scheme == "zk":
		return nil
	case p.opts.Dial != nil:
		return errors.New("use zk:// with a Dial, which makes TLS")
	}
	p.opts.TLS, err = files.Apply(p.opts.TLS)
	return err
}

// hosts reads the addresses.
func (p *place) hosts(list string) (err error) {
	var ok bool
	if p.addrs, ok = storekit.Addrs(list, "2181"); !ok {
		err = fmt.Errorf("%q has a part that is not an address: write zk://host1:2181,host2:2181", list)
	}
	return err
}

// root reads the path.
func (p *place) root(s string) error {
	s = cmp.Or(s, p.opts.Root, defaultRoot)
	if s != "/" {
		s = strings.TrimSuffix(s, "/")
	}
	if !strings.HasPrefix(s, "/") || path.Clean(s) != s || strings.HasPrefix(s+"/", "/zookeeper/") {
		return fmt.Errorf("the root %q is not a path of ZooKeeper: write one like /pawl", s)
	}
	for part := range strings.SplitSeq(s[1:], "/") {
		if strings.ReplaceAll(encodeName(part), "%25", "%") != part {
			return fmt.Errorf("the root %q contains a character that ZooKeeper does not accept: use printable ones", s)
		}
	}
	p.opts.Root = s
	return nil
}

// user sets user and password from the URL, else from the options or the file, else from the environment.
func (p *place) user(u *url.Userinfo) error {
	env := passwordEnv
	if u.Username() == "" && p.opts.Username == "" {
		env = "" // use the environment's password only if there is a user
	}
	storekit.ReadUser(u, env, &p.opts.Username, &p.opts.Password)
	switch {
	case p.opts.Username == "" && p.opts.Password != "":
		return errors.New("there is a password without a user: write zk://user:password@host")
	case p.opts.Username != "" && p.opts.Password == "":
		return errors.New("there is a user without a password: write zk://user:password@host, or use ?password_file= or $" + passwordEnv)
	case strings.Contains(p.opts.Username, ":"):
		return errors.New("the user contains a colon, where ZooKeeper begins the password: use a user without one")
	}
	return nil
}
