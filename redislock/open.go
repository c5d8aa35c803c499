// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/cluster"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
	"github.com/pawl-go/pawl/redislock/internal/keys"
)

// Open returns a client of the server at url. The first lease on a server that has been up for less
// than MaxTTL, 30 s by default, and the first on a cluster, wait until leases that may have been
// forgotten have ended: MaxTTL at most. That is logged; AssumeNew skips the wait. The url has one of
// the forms
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
// It connects, for at most ConnectTimeout and until ctx ends. If the server is unavailable the
// client connects when it is used: see pawl.Client.Ping. If it fails for another reason, if the
// user lacks rights or, unless AllowUnguarded is set, if restarts of the server could
// not be noticed, the error says what to do. Open also returns the errors of pawl.New. No
// error contains a password. User and password are for the server; sentinel_username and
// sentinel_password are for the sentinels.
//
// One node of a cluster is enough to find the others, at the addresses that they
// announce to each other; addr names more, in case the first is down. Open refuses a
// database other than 0 there.
func Open(ctx context.Context, url string, opts *Options) (*pawl.Client, error) {
	opts = orDefault(opts)
	own := opts.Options
	return pawl.Connect(ctx, func(ctx context.Context) (driver.Store, error) { return openInto(ctx, url, opts, &own) }, &own)
}

// openInto is NewStore, and notes in own what the URL says.
func openInto(ctx context.Context, url string, opts *Options, own *pawl.Options) (driver.Store, error) {
	s, o, err := connect(ctx, url, opts)
	if o != nil {
		*own = o.Options
	}
	if err != nil {
		return nil, err
	}
	return s.driver(), nil
}

// New returns a pawl client that uses client and never closes it. The first lease on a new server
// may wait for MaxTTL, and the errors are the same, as with Open. New ignores options about
// the connection.
//
// The client should be made with AlwaysPipelining: without it, requests that are
// given up can cost the connection. One for a cluster should have a
// ClusterOption.ShardsRefreshInterval: its connections are used, and those to nodes
// that join the cluster later appear only when it looks for them.
func New(client rueidis.Client, opts *Options) (*pawl.Client, error) {
	opts = orDefault(opts).fit()
	return pawl.Connect(context.Background(), func(context.Context) (driver.Store, error) { return NewStoreFor(client, opts) }, &opts.Options)
}

// NewStore returns the wire of a client of the server at url, for callers that wrap it
// before they pass it to pawl.New. It returns the errors of Open.
func NewStore(ctx context.Context, url string, opts *Options) (driver.Store, error) {
	return openInto(ctx, url, opts, new(pawl.Options))
}

// driver returns the wire of the store's mode.
func (s *store) driver() driver.Store {
	if s.mode == Efficiency {
		return efficient{s}
	}
	return s
}

// connect returns the store at url, and the options with the settings in the URL: also beside an error, unless the URL is
// wrong.
func connect(ctx context.Context, url string, opts *Options) (*store, *Options, error) {
	opts = orDefault(opts)
	place, err := conn.Parse(url, opts.forURL())
	if err != nil {
		return nil, nil, fmt.Errorf("redislock: %w", err)
	}
	opts = opts.with(&place.Options)
	s, err := newStore(opts)
	if err != nil {
		return nil, opts, err
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
			return nil, opts, fmt.Errorf("redislock: %s: %w", place.Shown, conn.NotBound(ctx, err).Err)
		}
		if err := s.start(ctx, cluster.One(epoch.New(client, conf)), conf); !errors.Is(err, epoch.ErrCluster) {
			return s, opts, err
		}
	}
	nodes, err := place.Nodes()
	if err != nil {
		return nil, opts, fmt.Errorf("redislock: %s: %w", place.Shown, err)
	}
	return s, opts, s.start(ctx, cluster.New(nodes, conf), conf)
}

// NewStoreFor is NewStore for a client that the caller has made. The wire never closes it.
func NewStoreFor(client rueidis.Client, opts *Options) (driver.Store, error) {
	opts = orDefault(opts)
	s, err := newStore(opts)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), opts.timeout())
	defer cancel()
	conf := s.config(opts, "the client's server", nil)
	var server *cluster.Cluster
	if client.Mode() == rueidis.ClientModeCluster {
		server = cluster.New(conn.NodesOf(client), conf)
	} else {
		server = cluster.One(epoch.New(client, conf))
	}
	if err := s.start(ctx, server, conf); err != nil {
		return nil, err
	}
	return s.driver(), nil
}

// newStore returns a store without a server.
func newStore(opts *Options) (*store, error) {
	s := &store{
		id:        strings.ToLower(rand.Text()),
		prefix:    cmp.Or(opts.Prefix, defaultPrefix),
		limit:     epoch.NewLimit(opts.MaxTTL, opts.Holder),
		mode:      opts.Mode,
		assumeNew: opts.AssumeNew,
		prompt:    opts.WaitReplicas == 0, // a message may come before the replicas have the lease
	}
	var err error
	if s.layout, err = keys.New(s.prefix, opts.Pattern); err != nil {
		return nil, fmt.Errorf("redislock: %w", err)
	}
	if s.limit.Own() < driver.MinTTL || opts.timeout() < 0 {
		return nil, fmt.Errorf("redislock: MaxTTL %v, connect timeout %v: use at least %v and 0", s.limit.Own(), opts.timeout(), driver.MinTTL)
	}
	if opts.WaitReplicas < 0 {
		return nil, fmt.Errorf("redislock: WaitReplicas %d (?wait_replicas=) is negative: use the number of replicas that have to have a lease, or 0", opts.WaitReplicas)
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
	return s, nil
}

// config returns the configuration of each server. A client without a contact belongs
// to the caller.
func (s *store) config(opts *Options, addr string, contact *conn.Contact) epoch.Config {
	s.bounded = contact != nil
	conf := epoch.Config{
		Addr: addr, Owned: contact != nil, Contact: contact, ID: s.id, Prefix: s.prefix, Layout: s.layout, Channel: s.prefix + "client:",
		Limit: s.limit, Timeout: opts.timeout(), Unguarded: opts.AllowUnguarded,
		Replicas: opts.WaitReplicas, ReplicaTimeout: epoch.ReplicaTimeout(cmp.Or(opts.TTL, pawl.DefaultTTL)),
		Scripts: scripts, Check: checkLua, Hear: s.hear, Opened: s.heard, Missed: s.missed, News: s.told,
	}
	if s.mode == Efficiency {
		conf.Unguarded, conf.Scripts, conf.Hear, conf.Missed = true, nil, nil, nil
	}
	return conf
}

// start binds the store to what keeps its keys and begins to listen.
func (s *store) start(ctx context.Context, server *cluster.Cluster, conf epoch.Config) error {
	ctx, cancel := context.WithTimeout(ctx, conf.Timeout+time.Second)
	defer cancel()
	s.server = server // before messages come
	err := server.Bind(ctx)
	if err == nil {
		err = s.agree(ctx)
	}
	if err == nil && s.assumeNew && s.mode != Efficiency {
		err = s.blessNew(ctx)
	}
	if err != nil {
		server.Close()
		return fmt.Errorf("redislock: %s: %w", conf.Addr, err)
	}
	server.Listen()
	return nil
}

// blessNew blesses a server that has no record of an epoch. Nobody hears of the quarantine that this ends.
func (s *store) blessNew(ctx context.Context) error {
	is, err := s.server.State(ctx)
	if err != nil || is.Run == "" || is.TTL != 0 {
		return err
	}
	if err := s.server.Bless(ctx); err != nil {
		return err
	}
	s.events.Drop(func(e driver.Event) bool { return e.News.Closed > 0 })
	return nil
}
