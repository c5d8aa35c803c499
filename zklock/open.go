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
	"github.com/pawl-go/pawl/driver/storekit"
)

// Options are the settings of a client of ZooKeeper. The zero value and a nil *Options are valid. A parameter
// of the URL overrides its field.
type Options struct {
	// Options.TTL is also the TTL of the session that Open begins. Leases with another TTL need another session. A
	// client has at most eight sessions.
	pawl.Options

	// Root is the node below which each name has a node. The default is "/pawl". The client makes Root if it is
	// missing. Clients exclude each other only if they have the same Root.
	Root string

	// TickTime is at least the tickTime of the servers, from zoo.cfg. By default the client sends the command conf
	// to each server and takes the longest tick. If a server does not answer, the client takes at least 2 s,
	// ZooKeeper's default. If TickTime is too short, two clients may hold a name.
	TickTime time.Duration

	// Username and Password log in with the digest scheme if the URL has no user. The password may also come from
	// the URL, its password_file, or $PAWL_ZK_PASSWORD. If there is a user, only that user may use the nodes that
	// the client makes. By default everybody may.
	Username, Password string

	// TLS is the configuration for zks URLs. By default the client trusts the system's certificate authorities.
	TLS *tls.Config

	// Dial connects to a server. Its arguments are "tcp" and the server's address. The default is the DialContext
	// of a net.Dialer. Use Dial only with zk URLs: if the connection needs TLS, Dial has to set it up.
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

// Open returns a client of the servers at url, which has one of these forms:
//
//	zk://[user:password@]host[:port][,host[:port]…][/root]
//	zks://…                                                  with TLS
//
// The parameters are tick_time, connect_timeout, password_file, ca_file, cert_file, key_file and server_name.
//
// Open begins a session, which takes at most ConnectTimeout. If no server is available, Open succeeds, and the
// client connects when it is used; see pawl.Client.Ping. Open returns an error if the URL or the options are
// wrong, or if the TTL is longer than the servers' sessions. Errors do not contain the password.
//
// Open does not accept a *zk.Conn, which hides the timeout of its session, and begins a new session by itself.
// Pass the servers, the Dial function and the user of that connection.
func Open(ctx context.Context, url string, opts *Options) (*pawl.Client, error) {
	opts = storekit.OrDefault(opts)
	return pawl.Connect(ctx, func(ctx context.Context) (driver.Store, error) {
		s, err := NewStore(ctx, url, opts)
		if err != nil {
			return nil, err
		}
		if _, err := s.(*store).leases(ctx, purpose{ttl: s.(*store).ttl}); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		return s, nil
	}, &opts.Options)
}

// NewStore returns the store at url, for programs that wrap the store before they pass it to pawl.New. It returns
// the errors of Open, and ErrUnavailable if no server is available. If the TTL is too long for the servers,
// NewStore succeeds and the first request for a lease fails, because a client that only inspects needs no lease.
func NewStore(ctx context.Context, url string, opts *Options) (driver.Store, error) {
	p, err := parseURL(url, storekit.OrDefault(opts))
	if err != nil {
		return nil, err
	}
	s, err := newStore(p)
	if err != nil {
		return nil, err
	}
	s.learnTick(ctx, p.opts.TickTime > 0)
	if _, err := s.inspectSession(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("zklock: %s: %w", p.shown, err)
	}
	return s, nil
}

// newStore returns a store that has no session yet.
func newStore(p *place) (*store, error) {
	o := &p.opts
	s := &store{
		addrs:    p.addrs,
		shown:    p.shown,
		root:     o.Root,
		tls:      o.TLS != nil,
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
	switch {
	case s.tls:
		s.dial = (&tls.Dialer{Config: o.TLS}).DialContext
	case s.dial == nil:
		s.dial = new(net.Dialer).DialContext
	default:
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

// checked returns a dialFunc that returns an error if dial returns neither a connection nor an error.
func checked(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if conn == nil && err == nil {
			err = errors.New("the function Dial has returned neither a connection nor an error")
		}
		return conn, err
	}
}
