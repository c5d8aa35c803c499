// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/internal/conn"
)

func init() { pawl.Register("redlock", openByURL) }

// openByURL opens a store for pawl.Open.
func openByURL(ctx context.Context, url string, opts *pawl.Options) (driver.Store, error) {
	return openInto(ctx, url, &Options{Options: redislock.Options{Options: *opts}}, opts)
}

// addrOf returns the name of p in errors and in Status.
func addrOf(p *conn.Place) string {
	return strings.TrimPrefix(strings.TrimPrefix(p.Shown, "redis://"), "rediss://")
}

// parseURL reads a URL. It makes one URL for each master, since the URL of a server has one
// host. Its errors do not repeat the URL: it may contain a password, and in a wrong URL it
// is not clear where the password ends.
func parseURL(s string, opts *Options) (*Options, []*conn.Place, error) {
	u, err := storekit.ParseURL(s)
	if err != nil || u.Scheme != "redlock" {
		return nil, nil, errors.New("this is not a URL like redlock://host1:6379,host2:6379,host3:6379; " +
			"a port is 1 to 65535; write special characters of the password as %xx")
	}
	user := ""
	if u.User != nil {
		user = u.User.String() + "@"
	}
	c := *opts
	query, scheme, err := c.params(u.RawQuery)
	if err != nil {
		return nil, nil, err
	}
	var places []*conn.Place
	for host := range strings.SplitSeq(u.Host, ",") {
		if host == "" {
			return nil, nil, errors.New("a host is empty: write redlock://host1:6379,host2:6379,host3:6379")
		}
		host = strings.ReplaceAll(host, "%", "%25") // before the zone of an IPv6 address
		p, err := conn.Parse(scheme+"://"+user+host+u.EscapedPath()+"?"+query, conn.Options{
			Prefix: c.Prefix, Pattern: c.Pattern, MaxTTL: c.MaxTTL, AllowUnguarded: c.AllowUnguarded, AssumeNew: c.AssumeNew, Username: c.Username,
			Password: c.Password, ConnectTimeout: c.ConnectTimeout, TLS: c.TLS, TTL: c.TTL,
			Dial: c.Dial, Credentials: c.Credentials,
		})
		if err != nil {
			return nil, nil, err
		}
		places = append(places, p)
	}
	o := places[0].Options
	c.Prefix, c.Pattern, c.MaxTTL, c.AllowUnguarded, c.ConnectTimeout = o.Prefix, o.Pattern, o.MaxTTL, o.AllowUnguarded, o.ConnectTimeout
	c.AssumeNew = o.AssumeNew
	if c.TTL == 0 && c.MaxTTL != 0 {
		c.TTL = min(c.MaxTTL, pawl.DefaultTTL)
	}
	return &c, places, nil
}

var (
	errSentinel = errors.New("a master of Redlock is not found through sentinels: a replica that is promoted may lack the locks")
	errMode     = errors.New("redlock has no modes; for Efficiency one server will do, with redis:// instead of redlock://")
	errReplicas = fmt.Errorf("redlock does not wait for replicas: a majority of masters is what keeps a lease: %w", errors.ErrUnsupported)
)

// params reads into o the parameters that a single server does not know, and returns the rest.
func (o *Options) params(query string) (rest, scheme string, err error) {
	scheme = "redis"
	q, err := url.ParseQuery(query)
	if err != nil {
		return "", "", storekit.ErrQuery
	}
	for key, values := range q {
		v := values[len(values)-1]
		switch key {
		case "node_timeout":
			o.NodeTimeout, err = storekit.Duration(v)
		case "quorum":
			o.Quorum, err = storekit.Int(v)
		case "allow_single":
			o.AllowSingle, err = storekit.Bool(v)
		case "tls":
			var tls bool
			if tls, err = storekit.Bool(v); tls {
				scheme = "rediss"
			}
		case "addr", "master_set":
			err = errSentinel
		case "wait_replicas":
			err = errReplicas
		case "mode":
			err = errMode
		default:
			if !strings.HasPrefix(key, "sentinel") {
				continue
			}
			err = errSentinel
		}
		if err != nil {
			return "", "", fmt.Errorf("%s: %w", key, err)
		}
		q.Del(key)
	}
	return q.Encode(), scheme, nil
}
