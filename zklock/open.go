// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// Options are the settings of a client of ZooKeeper. The zero value is useful, and
// a nil *Options is the same. The URL takes precedence.
type Options struct {
	// Options.TTL decides how long the session of the leases lasts. A lease with
	// another TTL needs another session; a client has at most eight.
	pawl.Options

	// Root is the node below which each name has a node; "/pawl" unless set. It is
	// made if it is missing. Clients with the same root exclude each other.
	Root string

	// TickTime is that of the servers, tickTime in zoo.cfg, or longer. Unless set, it is
	// the longest that the servers answer to the word conf, and at least 2 s, which is
	// usual, unless all of them answer. A tick that is too short lets two clients hold a name.
	TickTime time.Duration

	// Username and Password are sent to the servers, with the scheme digest, if the
	// URL has none. Without a password here, in the URL or in a file, that in
	// $PAWL_ZK_PASSWORD is used. All nodes then belong to that user; without a user,
	// every client may change them.
	Username, Password string

	// TLS is the configuration for zks URLs. Nil trusts the authorities that the
	// system trusts.
	TLS *tls.Config

	// Dial makes the connections; a net.Dialer unless set. It gets "tcp" and the address of a
	// server. If TLS is needed, Dial makes it, and the URL is one of zk://.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// ConnectTimeout bounds the beginning of a session; 5 s unless set.
	ConnectTimeout time.Duration
}

const (
	defaultRoot    = "/pawl"
	defaultTick    = 2 * time.Second
	defaultConnect = 5 * time.Second
	passwordEnv    = "PAWL_ZK_PASSWORD"
)

// Open returns a client of the servers at url, which is one of
//
//	zk://[user:password@]host[:port][,host[:port]…][/root]
//	zks://…                                                  with TLS
//
// with the parameters tick_time, connect_timeout, password_file, ca_file,
// cert_file, key_file, server_name. It begins a session, for at most ConnectTimeout
// and until ctx ends. If the servers are unavailable at that moment, the client connects when it
// is used: see pawl.Client.Ping. Any other error says what to do, such as that the servers have no
// sessions that are long enough for the TTL. No error contains the password.
//
// There is no way to use a *zk.Conn of the caller's: it does not say how long its
// session lasts, and begins another one unasked. What it was made with goes in here: the
// servers, Dial, and a user.
func Open(ctx context.Context, url string, opts *Options) (*pawl.Client, error) {
	opts = orDefault(opts)
	return pawl.Connect(ctx, func(ctx context.Context) (driver.Store, error) {
		s, err := connect(ctx, url, opts)
		if err != nil {
			return nil, err
		}
		if _, err := s.leases(ctx, purpose{ttl: s.ttl}); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		return s, nil
	}, &opts.Options)
}

// NewStore returns the wire of a client of the servers at url, for callers that wrap it before
// they pass it to pawl.New. Its errors are those of Open, but it refuses a TTL that is too long
// for the servers only when a lease is asked for: a client that only looks needs none.
func NewStore(ctx context.Context, url string, opts *Options) (driver.Store, error) {
	s, err := connect(ctx, url, opts)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func connect(ctx context.Context, url string, opts *Options) (*store, error) {
	p, err := parseURL(url, orDefault(opts))
	if err != nil {
		return nil, err
	}
	s, err := newStore(p)
	if err != nil {
		return nil, err
	}
	s.learnTick(ctx, p.opts.TickTime > 0)
	if _, err := s.usual(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("zklock: %s: %w", p.shown, err)
	}
	return s, nil
}

// orDefault returns a copy: a client may connect long after Open, and the caller may have changed
// the options by then.
func orDefault(opts *Options) *Options {
	if opts == nil {
		return &Options{}
	}
	own := *opts
	return &own
}

// newStore returns a store that has not connected yet.
func newStore(p *place) (*store, error) {
	o := &p.opts
	s := &store{
		addrs:    p.addrs,
		shown:    p.shown,
		root:     cmp.Or(o.Root, defaultRoot),
		tls:      o.TLS,
		dial:     o.Dial,
		acl:      zk.WorldACL(zk.PermAll),
		ttl:      cmp.Or(o.TTL, pawl.DefaultTTL),
		tick:     cmp.Or(o.TickTime, defaultTick),
		tickFrom: tickAssumed,
		timeout:  cmp.Or(o.ConnectTimeout, defaultConnect),
		sessions: make(map[purpose]*session),
		tell:     func(driver.Event) {},
	}
	if s.ttl < driver.MinTTL || s.tick < time.Millisecond || s.timeout < 0 {
		return nil, fmt.Errorf("zklock: TTL %v, tick time %v or connect timeout %v is too short", s.ttl, s.tick, s.timeout)
	}
	if s.dial == nil {
		s.dial = new(net.Dialer).DialContext
	} else {
		s.dial = checked(s.dial)
	}
	if o.Username != "" {
		s.auth = []byte(o.Username + ":" + o.Password)
		s.acl = zk.AuthACL(zk.PermAll)
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// dialFunc connects to a server.
type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// checked returns dial with an error where it returns nothing.
func checked(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if conn == nil && err == nil {
			err = errors.New("the function Dial has returned neither a connection nor an error")
		}
		return conn, err
	}
}
