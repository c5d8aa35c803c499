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

// Options are the settings of a client on a Redis server. The zero value is useful; a
// nil *Options means the zero value. Settings in the URL take precedence.
type Options struct {
	pawl.Options

	// Prefix begins every key and channel. The default is "pawl:". Clients with the same
	// prefix on the same database exclude each other. Prefix must not contain braces.
	Prefix string

	// Pattern is the key of a lock, with one * in the place of the name, such as
	// lock:*. Set it while programs with another library lock these keys by SET key
	// value NX PX: these programs and clients with the Pattern exclude each other. By
	// default the key of a lock is PREFIX{NAME}.
	//
	// The other keys of a lock begin with Prefix, and are in the same slot of a cluster. So
	// the key of a lock may have braces only as a hash tag.
	//
	// The first client with a Pattern records it at the store. Clients with another Pattern,
	// or with none, then get ErrDisagree when they open or ask. If clients without a Pattern
	// have already used the store, a client with one gets ErrDisagree: choose another Prefix.
	// With Efficiency or AllowUnguarded the Pattern is compared only when a client opens.
	//
	// The other library does not tell waiters when it releases a lock, so the first waiter
	// asks several times a second. While clients of this package wait, they hand the lock to
	// each other, and the other library has to wait. See docs/migrating.md.
	Pattern string

	// MaxTTL is the longest TTL that any client of the store may use, and so the length
	// of the quarantine after the server has lost its data. The default is
	// pawl.DefaultTTL.
	//
	// The first client that gets a lease records its MaxTTL at the store, for all
	// clients. The store then refuses a longer TTL. A client with a shorter MaxTTL than the
	// store gets ErrDisagree. SetMaxTTL changes the MaxTTL of the store.
	MaxTTL time.Duration

	// AllowUnguarded accepts a server that may evict keys, and a server whose restarts go
	// unnoticed because it is older than Redis 7 or refuses INFO. After a restart or an
	// eviction two clients can hold the same lock.
	AllowUnguarded bool

	// AssumeNew treats a server or cluster as new if it has no record of clients: the client
	// blesses it when it opens, so that the first lease does not wait for MaxTTL. Use it only in
	// development and tests: if a server in use loses all data, the next client that opens with
	// AssumeNew lets two clients hold the same lock.
	AssumeNew bool

	// WaitReplicas is how many replicas must confirm each grant and each renewal. It costs
	// one more round trip and one more write, which all requests share that wait at the
	// same time. If too few replicas confirm within a tenth of the TTL (at least 50 ms, at
	// most 1 s), the client gives a new lease back and returns ErrUnavailable, and it
	// repeats a renewal.
	//
	// After a failover to a replica that has confirmed, the holder keeps its lease. A
	// replica confirms when it has the lease in memory, before it is on disk. A replica
	// that has not confirmed may be promoted too; then the holder may lose its lease. Even
	// then, and even without WaitReplicas, nobody else gets the name before the lease ends.
	WaitReplicas int

	// Username and Password are for the server, if the URL has none. If there is no
	// password here, in the URL or in a file, the client uses $PAWL_REDIS_PASSWORD.
	Username, Password string

	// Dial makes the connections instead of a net.Dialer. network is "tcp" or "unix". For
	// TLS, Dial has to return a TLS connection; the URL is still redis:// or unix://.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// Credentials returns user and password for a new connection to the server at addr. By
	// default they come from the options and the URL.
	Credentials func(ctx context.Context, addr string) (username, password string, err error)

	// Mode is the purpose of the locks. The default is Correctness.
	Mode Mode

	// TLS is the configuration for rediss URLs. If it is nil, the client trusts the
	// certificate authorities of the system.
	TLS *tls.Config

	// ConnectTimeout is how long making a connection may take. The default is 5 s.
	ConnectTimeout time.Duration
}

const defaultPrefix = "pawl:"

// fit returns options whose default TTL is at most MaxTTL.
func (o *Options) fit() *Options {
	if o.TTL != 0 || o.MaxTTL == 0 || o.MaxTTL >= pawl.DefaultTTL {
		return o
	}
	c := *o
	c.TTL = o.MaxTTL
	return &c
}

func (o *Options) timeout() time.Duration { return cmp.Or(o.ConnectTimeout, conn.DefaultConnect) }

// forURL returns the options for conn.Parse. The method with takes the settings of the URL over.
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
