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

// Options are the settings of a client of ZooKeeper. The zero value and a nil *Options are valid. A parameter
// of the URL overrides its field.
type Options struct {
	// Options.TTL is also the TTL for which Open begins a session. A lease with another TTL needs
	// another session; a client has up to eight.
	pawl.Options

	// Root is the node that has a node for each name. The default is "/pawl". The client makes it if it
	// is missing. Clients with the same root exclude each other.
	Root string

	// TickTime is the tickTime of the servers, from zoo.cfg, or more. By default the client asks each server
	// with the word conf and takes the longest; if not all of them answer, it takes 2 s at least, ZooKeeper's
	// usual tickTime. A tick that is too short lets two clients hold a name.
	TickTime time.Duration

	// Username and Password log in with the scheme digest if the URL has no user. The password may also
	// be in the URL, in its password_file, or in $PAWL_ZK_PASSWORD. With a user, only that user may use the
	// nodes that the client makes; by default everybody may.
	Username, Password string

	// TLS is the configuration for zks URLs. By default the client trusts the authorities of the system.
	TLS *tls.Config

	// Dial connects to a server. It gets "tcp" and the server's address. By default a net.Dialer does. Use
	// it with zk URLs only: if the connection needs TLS, Dial makes that as well.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// ConnectTimeout limits how long a session takes to begin. The default is 5 s.
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
// with the parameters tick_time, connect_timeout, password_file, ca_file, cert_file, key_file and server_name.
//
// Open begins a session, which takes ConnectTimeout at most. If no server is available, Open succeeds, and the
// client connects when it is used; see pawl.Client.Ping. Open returns an error if the URL or the options are wrong,
// or if the TTL is longer than the servers' sessions. No error contains the password.
//
// A *zk.Conn cannot be passed in: it hides how long its session lasts, and begins a new one unasked. Pass
// the servers, Dial and the user that it was made with.
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

// NewStore returns the store at url, for programs that wrap it before they pass it to pawl.New. It returns
// the errors of Open, and ErrUnavailable if no server is available. A TTL that is too long for the servers fails only when a
// lease is asked for: a client that only looks needs no lease.
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

// newStore returns a store that has no session yet.
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
		return nil, fmt.Errorf("zklock: TTL %v, tick time %v, connect timeout %v: use at least %v, %v and 0", s.ttl, s.tick, s.timeout, driver.MinTTL, time.Millisecond)
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
