// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/redislock/internal/conn"
)

// Options are the settings of a client on a Redis server. The zero value is useful, and
// a nil *Options is the same. The URL takes precedence.
type Options struct {
	pawl.Options

	// Prefix begins every key and channel; "pawl:" unless set. Clients with the
	// same prefix on the same database exclude each other. It must not contain
	// braces.
	Prefix string

	// Pattern is the key of a lock, with one * in the place of the name, such as
	// lock:*. Set it while programs with another library lock these keys by SET key
	// value NX PX: they and clients with the Pattern exclude each other. Unless set, the
	// key of a lock is PREFIX{NAME}.
	//
	// All other keys begin with Prefix. They are in the same slot of a cluster, so the
	// key of a lock may have braces only as a hash tag. The first client with a Pattern
	// records it at the store, and clients with another one, or with none, get
	// ErrDisagree when they open or ask. A client with a Pattern gets it, too, where clients
	// without one have been granted leases: choose another Prefix then. With Efficiency, and
	// with AllowUnguarded, the Pattern is compared only when a client opens.
	//
	// The other library knows nothing of waiters: a client looks several times a second
	// whether a lock that it holds is free, and while clients wait, they hand the lock to
	// each other. See docs/migrating.md.
	Pattern string

	// MaxTTL is the longest TTL that any client of the store uses, and so the length of
	// the quarantine after the server has lost its data. It is pawl.DefaultTTL unless
	// set.
	//
	// The first client that is granted a lease records its own MaxTTL at the store, for
	// all others. The store refuses a longer TTL, and a client whose own MaxTTL is
	// shorter than the store's gets ErrDisagree. SetMaxTTL changes it.
	MaxTTL time.Duration

	// AllowUnguarded accepts a server whose restarts cannot be noticed (one older than
	// Redis 7, or one that refuses INFO), and one that may evict keys. After a restart
	// or an eviction two clients can hold the same lock.
	AllowUnguarded bool

	// AssumeNew treats a server, or a cluster, without a record of clients as new: the client
	// blesses it when it opens, and the first lease need not wait for MaxTTL. It is for
	// development and tests: after a loss of all data, the next client that opens with it lets two
	// clients hold the same lock. By default the first lease waits.
	AssumeNew bool

	// WaitReplicas is how many replicas must have a lease before it is trusted, and
	// each renewal before it counts. It costs one more round trip, shared by all
	// requests that wait for it, and one write. If fewer confirm within a tenth of the
	// TTL, 50 ms to 1 s, a new lease is given back, with ErrUnavailable, and a renewal
	// is tried again.
	//
	// After a failover to one of these replicas the holder keeps its lease. Even
	// without this option nobody else gets the name before the lease ends. A replica
	// has the lease in memory then, not on its disk, and a replica that has not
	// confirmed may still be promoted.
	WaitReplicas int

	// Username and Password are sent to the server if the URL has none. Without
	// a password here, in the URL or in a file, that in $PAWL_REDIS_PASSWORD is
	// used.
	Username, Password string

	// Dial makes the connections instead of a net.Dialer. It gets "tcp" or "unix" and the
	// address, and makes TLS, too, if that is needed: the URL is one of redis:// or unix://.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// Credentials returns user and password for a new connection to the server at addr. By
	// default they come from the options and the URL.
	Credentials func(ctx context.Context, addr string) (username, password string, err error)

	// Mode is what the lock is for; Correctness unless set.
	Mode Mode

	// TLS is the configuration for rediss URLs. Nil trusts the authorities that
	// the system trusts.
	TLS *tls.Config

	// ConnectTimeout bounds the making of a connection; 5 s unless set.
	ConnectTimeout time.Duration
}

const defaultPrefix = "pawl:"

// orDefault returns a copy: a client may connect long after Open, and the caller may have changed
// the options by then.
func orDefault(opts *Options) *Options {
	if opts == nil {
		return &Options{}
	}
	own := *opts
	return &own
}

// fit makes the default TTL no longer than MaxTTL.
func (o *Options) fit() *Options {
	if o.TTL != 0 || o.MaxTTL == 0 || o.MaxTTL >= pawl.DefaultTTL {
		return o
	}
	c := *o
	c.TTL = o.MaxTTL
	return &c
}

func (o *Options) timeout() time.Duration { return cmp.Or(o.ConnectTimeout, conn.DefaultConnect) }

// forURL returns the options that a URL can change; with takes them back as the URL has
// set them.
func (o *Options) forURL() conn.Options {
	return conn.Options{Prefix: o.Prefix, Pattern: o.Pattern, MaxTTL: o.MaxTTL, AllowUnguarded: o.AllowUnguarded, AssumeNew: o.AssumeNew, WaitReplicas: o.WaitReplicas, Mode: string(o.Mode),
		Username: o.Username, Password: o.Password, ConnectTimeout: o.ConnectTimeout, TLS: o.TLS, TTL: o.TTL,
		Dial: o.Dial, Credentials: o.Credentials}
}

func (o *Options) with(u *conn.Options) *Options {
	c := *o
	c.Prefix, c.MaxTTL, c.AllowUnguarded, c.ConnectTimeout = u.Prefix, u.MaxTTL, u.AllowUnguarded, u.ConnectTimeout
	c.AssumeNew, c.Pattern, c.WaitReplicas, c.Mode = u.AssumeNew, u.Pattern, u.WaitReplicas, Mode(u.Mode)
	return c.fit()
}
