// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/cluster"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/efficiency"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
	"github.com/pawl-go/pawl/redislock/internal/keys"
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

	// AssumeNew takes a server, or a cluster, that has no record of its clients for one that
	// nobody has used before. It is blessed when the client opens, and so grants at once:
	// otherwise the first lease waits for MaxTTL. It is for development and tests: after a loss
	// of all data the next client that opens with it lets two hold the same lock.
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

	// Credentials is asked for user and password with each new connection to the server at
	// addr. Those of the options and of the URL are not used then.
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

// Open returns a client of the server at url, which has one of the forms
//
//	redis://[user[:password]@]host[:port][/database]
//	rediss://…                                        with TLS
//	unix://[user[:password]@]/path/to/socket[?db=n]
//	redis://sentinel[:port]?addr=sentinel2&addr=sentinel3&master_set=name
//	redis://node[:port][?addr=node2&addr=node3]       a cluster
//
// with the parameters db, prefix, pattern, max_ttl, connect_timeout, password_file, ca_file,
// cert_file, key_file, server_name, allow_unguarded, assume_new, wait_replicas, mode,
// sentinel_username, sentinel_password, sentinel_password_file.
//
// It connects, for at most ConnectTimeout and until ctx ends. If that fails, if the
// user lacks rights or, unless AllowUnguarded is set, if restarts of the server could
// not be noticed, the error says what to do. The other errors are those of pawl.New. No
// error contains a password. User and password are those of the server;
// sentinel_username and sentinel_password are those of the sentinels.
//
// One node of a cluster is enough to find the others, at the addresses that they
// announce to each other; addr names more, in case the first is down. Open refuses a
// database other than 0 there.
func Open(ctx context.Context, url string, opts *Options) (*pawl.Client, error) {
	opts = orDefault(opts)
	d, opts, err := newDriver(ctx, url, opts)
	if err != nil {
		return nil, &pawl.Error{Op: "open", Err: err}
	}
	return newClient(d, opts)
}

// New returns a pawl client that uses client and never closes it. Its errors are those
// of Open. It ignores options about the connection.
//
// The client should be made with AlwaysPipelining: without it, requests that are
// given up can cost the connection. One for a cluster should have a
// ClusterOption.ShardsRefreshInterval: its connections are used, and those to nodes
// that join the cluster later appear only when it looks for them.
func New(client rueidis.Client, opts *Options) (*pawl.Client, error) {
	opts = orDefault(opts).fit()
	d, err := NewDriverFor(client, opts)
	if err != nil {
		return nil, &pawl.Error{Op: "open", Err: err}
	}
	return newClient(d, opts)
}

func newClient(d driver.Driver, opts *Options) (*pawl.Client, error) {
	c, err := pawl.New(d, &opts.Options)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return c, nil
}

// NewDriver returns the driver of a client of the server at url, for callers that wrap
// it before they pass it to pawl.New. Its errors are those of Open.
func NewDriver(ctx context.Context, url string, opts *Options) (driver.Driver, error) {
	d, _, err := newDriver(ctx, url, opts)
	return d, err
}

// newDriver also returns the options with what the URL says.
func newDriver(ctx context.Context, url string, opts *Options) (driver.Driver, *Options, error) {
	opts = orDefault(opts)
	place, err := conn.Parse(url, opts.forURL())
	if err != nil {
		return nil, nil, fmt.Errorf("redislock: %w", err)
	}
	opts = opts.with(&place.Options)
	s, err := newStore(opts)
	if err != nil {
		return nil, nil, err
	}
	conf := s.config(opts, place.Shown, place.Contact)
	if !place.Clustered() {
		// Dial may return a client that could not connect. Its error does not matter
		// unless dialling took long, as the first request returns the same.
		client, err := place.Dial(ctx)
		if client != nil && conn.Hopeless(err) {
			client.Close()
			client = nil
		}
		if client == nil {
			return nil, nil, fmt.Errorf("redislock: %s: %w", place.Shown, conn.NotBound(ctx, err).Err)
		}
		if err := s.start(ctx, epoch.New(client, conf), conf); !errors.Is(err, epoch.ErrCluster) {
			d, err := s.started(err)
			return d, opts, err
		}
	}
	nodes, err := place.Nodes()
	if err != nil {
		return nil, nil, fmt.Errorf("redislock: %s: %w", place.Shown, err)
	}
	d, err := s.started(s.start(ctx, cluster.New(nodes, conf), conf))
	return d, opts, err
}

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

// NewDriverFor is NewDriver for a client that the caller has made. The driver never
// closes it.
func NewDriverFor(client rueidis.Client, opts *Options) (driver.Driver, error) {
	opts = orDefault(opts)
	s, err := newStore(opts)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), opts.timeout())
	defer cancel()
	conf := s.config(opts, "the client's server", nil)
	if client.Mode() == rueidis.ClientModeCluster {
		return s.started(s.start(ctx, cluster.New(conn.NodesOf(client), conf), conf))
	}
	return s.started(s.start(ctx, epoch.New(client, conf), conf))
}

func orDefault(opts *Options) *Options {
	if opts == nil {
		return &Options{}
	}
	return opts
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

// newStore returns a store without a server.
func newStore(opts *Options) (*store, error) {
	s := &store{
		id:        strings.ToLower(rand.Text()),
		prefix:    cmp.Or(opts.Prefix, defaultPrefix),
		limit:     epoch.NewLimit(opts.MaxTTL, opts.Holder),
		mode:      opts.Mode,
		assumeNew: opts.AssumeNew,
		prompt:    opts.WaitReplicas == 0, // a message may come before the replicas have the lease
		waiters:   make(map[string]*waiter),
		grants:    make(map[string]*grant),
	}
	var err error
	if s.layout, err = keys.New(s.prefix, opts.Pattern); err != nil {
		return nil, fmt.Errorf("redislock: %w", err)
	}
	if s.limit.Own() < driver.MinTTL || opts.timeout() < 0 {
		return nil, fmt.Errorf("redislock: MaxTTL %v or connect timeout %v is too short", s.limit.Own(), opts.timeout())
	}
	if opts.WaitReplicas < 0 {
		return nil, fmt.Errorf("redislock: WaitReplicas %d (?wait_replicas=) is negative", opts.WaitReplicas)
	}
	switch {
	case s.mode != Correctness && s.mode != Efficiency:
		return nil, fmt.Errorf("redislock: there is no Mode %q: use Correctness or Efficiency", driver.Shorten(string(s.mode)))
	case s.mode == Efficiency && opts.WaitReplicas > 0:
		return nil, fmt.Errorf("redislock: WaitReplicas %d (?wait_replicas=) with Mode Efficiency (?mode=): leave one of them out", opts.WaitReplicas)
	}
	if err := s.checkTTL(opts.TTL); err != nil {
		return nil, err
	}
	if opts.Logger != nil {
		s.limit.Note = func(text string) { opts.Logger.Warn("redislock: " + text) }
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// config is that of the server, or the servers. A client without a contact belongs to
// the caller.
func (s *store) config(opts *Options, addr string, contact *conn.Contact) epoch.Config {
	conf := epoch.Config{
		Addr: addr, Owned: contact != nil, Contact: contact, ID: s.id, Prefix: s.prefix, Layout: s.layout, Channel: s.prefix + "client:",
		Limit: s.limit, Timeout: opts.timeout(), Unguarded: opts.AllowUnguarded,
		Replicas: opts.WaitReplicas, ReplicaTimeout: epoch.ReplicaTimeout(cmp.Or(opts.TTL, pawl.DefaultTTL)),
		Scripts: scripts, Check: checkLua, Hear: s.hear, Opened: s.heard, Unheard: s.unheard, Moved: s.moved, Stepped: s.stepped, Closed: s.closed, Silent: s.silent,
	}
	if s.mode == Efficiency {
		conf.Unguarded, conf.Scripts, conf.Hear, conf.Moved = true, nil, nil, nil
	}
	return conf
}

// start binds the store to what keeps its keys and begins to listen.
func (s *store) start(ctx context.Context, server keeper, conf epoch.Config) error {
	ctx, cancel := context.WithTimeout(ctx, conf.Timeout+time.Second)
	defer cancel()
	if err := server.Bind(ctx); err != nil {
		server.Close()
		return fmt.Errorf("redislock: %s: %w", conf.Addr, err)
	}
	s.server = server
	if err := s.agree(ctx); err != nil {
		server.Close()
		return fmt.Errorf("redislock: %s: %w", conf.Addr, err)
	}
	if s.assumeNew && s.mode != Efficiency {
		if err := blessNew(ctx, server); err != nil {
			server.Close()
			return fmt.Errorf("redislock: %s: %w", conf.Addr, err)
		}
	}
	server.Listen()
	return nil
}

// blessNew blesses a server that has no record of an epoch.
func blessNew(ctx context.Context, server keeper) error {
	is, err := server.State(ctx)
	if err != nil || is.Run == "" || is.TTL != 0 {
		return err
	}
	return server.Bless(ctx)
}

// started returns the store, or ends it.
func (s *store) started(err error) (driver.Driver, error) {
	if err != nil {
		s.cancel()
		return nil, err
	}
	if s.mode == Efficiency {
		return &efficiency.Driver{Participant: sharedWith{s}}, nil
	}
	return s, nil
}

// Bless declares that nobody holds a lease that the server at url may have forgotten.
// It ends the quarantine after a restart or FLUSHALL, or of a new server. After a
// crash, call it only when every holder has ended or was stopped. If opts or the URL
// name a MaxTTL, the store has that from then on. The errors are those of Open. With
// Efficiency there is no quarantine, and Bless returns an error.
func Bless(ctx context.Context, url string, opts *Options) error {
	return change(ctx, "bless", url, opts, func(s *store) error { return s.server.Bless(ctx) })
}

// SetMaxTTL changes MaxTTL of the store at url for all its clients. It can be used at
// any time: running clients adopt the new one with their next lease. A longer MaxTTL
// takes effect at once. A shorter one takes effect for new leases and for renewals;
// after a loss of data the quarantine still lasts until the last lease with the longer
// one must have ended.
//
// Before you raise it, give all clients the new MaxTTL, since a client with a shorter
// one is refused when it starts. After you have lowered it, change the clients when you
// like. The errors are those of Open.
func SetMaxTTL(ctx context.Context, url string, maxTTL time.Duration, opts *Options) error {
	url, err := conn.WithMaxTTL(url, maxTTL)
	if err != nil {
		return &pawl.Error{Op: "set MaxTTL", Err: fmt.Errorf("redislock: %w", err)}
	}
	return change(ctx, "set MaxTTL", url, opts, func(s *store) error { return s.server.Set(ctx) })
}

func change(ctx context.Context, op, url string, opts *Options, f func(*store) error) error {
	d, err := NewDriver(ctx, url, opts)
	if err != nil {
		return &pawl.Error{Op: op, Err: err}
	}
	defer d.Close()
	s, ok := d.(*store)
	if !ok {
		return &pawl.Error{Op: op, Err: errors.New("redislock: with Mode Efficiency nothing waits for a server to be blessed, and MaxTTL is of no use: leave out ?mode=")}
	}
	if err := f(s); err != nil {
		return &pawl.Error{Op: op, Err: err}
	}
	return nil
}
