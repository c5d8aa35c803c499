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
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock/internal/cluster"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
	"github.com/pawl-go/pawl/redislock/internal/keys"
)

// Open returns a client of the server at url. The first lease may wait for a quarantine, which is
// logged: on a server that has been up for less than MaxTTL (30 s by default), and on a cluster.
// The wait is at most MaxTTL. AssumeNew skips it. The url has one of the forms
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
// Open connects, for at most ConnectTimeout and until ctx ends. If the server is unavailable, Open
// returns a client that connects when it is used: see pawl.Client.Ping. Open returns an error that
// says what to do if the user lacks rights, if a restart of the server could go unnoticed and
// AllowUnguarded is not set, and if the connection fails for another reason. It also returns the
// errors of pawl.New. No error contains a password. User and password are for the server;
// sentinel_username and sentinel_password are for the sentinels.
//
// To find all nodes of a cluster Open needs one of them; the nodes must be reachable at the
// addresses that they announce to each other. Name more nodes with addr, in case the first is
// down. A cluster has database 0 only: Open refuses another number.
func Open(ctx context.Context, url string, opts *Options) (*pawl.Client, error) {
	opts = storekit.OrDefault(opts)
	own := opts.Options
	return pawl.Connect(ctx, func(ctx context.Context) (driver.Store, error) { return openInto(ctx, url, opts, &own) }, &own)
}

// openInto is NewStore, and also stores in own the options with the settings of the URL.
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

// New returns a pawl client that uses client and never closes it. As with Open, the first lease on
// a new server may wait for MaxTTL. New returns the errors of Open. It ignores options about the
// connection.
//
// Make the client with AlwaysPipelining: without it, a request that is given up can close
// the connection. Give a cluster client a ClusterOption.ShardsRefreshInterval: pawl uses
// its connections, and without the interval it has none to nodes that join the cluster
// later.
func New(client rueidis.Client, opts *Options) (*pawl.Client, error) {
	opts = storekit.OrDefault(opts).fit()
	return pawl.Connect(context.Background(), func(context.Context) (driver.Store, error) { return NewStoreFor(client, opts) }, &opts.Options)
}

// NewStore returns the store for the server at url, for callers that wrap it before they
// pass it to pawl.New. It returns the errors of Open.
func NewStore(ctx context.Context, url string, opts *Options) (driver.Store, error) {
	return openInto(ctx, url, opts, new(pawl.Options))
}

// driver returns the driver.Store for the mode of s.
func (s *store) driver() driver.Store {
	if s.mode == Efficiency {
		return efficient{s}
	}
	return s
}

// connect returns the store at url, and the options with the settings of the URL. It returns the options with an error
// too, unless the URL is wrong.
func connect(ctx context.Context, url string, opts *Options) (*store, *Options, error) {
	opts = storekit.OrDefault(opts)
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
		// Dial may return a client together with an error. The first request dials again
		// and returns the same error. If dialling took all its time, do not dial twice.
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

// NewStoreFor is NewStore for a client that the caller has made. The store never closes the client.
func NewStoreFor(client rueidis.Client, opts *Options) (driver.Store, error) {
	opts = storekit.OrDefault(opts)
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
		limit:     epoch.NewLimit(opts.MaxTTL, driver.Holder(opts.Holder)),
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

// config returns the configuration of each server. contact is nil if the caller has made
// the client.
func (s *store) config(opts *Options, addr string, contact *conn.Contact) epoch.Config {
	s.bounded = contact != nil
	conf := epoch.Config{
		Addr: addr, Owned: contact != nil, Contact: contact, ID: s.id, Prefix: s.prefix, Layout: s.layout, Channel: s.prefix + "client:",
		Limit: s.limit, Timeout: opts.timeout(), Unguarded: opts.AllowUnguarded,
		Replicas: opts.WaitReplicas, ReplicaTimeout: epoch.ReplicaTimeout(cmp.Or(opts.TTL, pawl.DefaultTTL)),
		Scripts: scripts, Commands: commands, Hear: s.hear, Opened: s.heard, Missed: s.missed, News: s.told,
	}
	if s.mode == Efficiency {
		conf.Unguarded, conf.Scripts, conf.Hear, conf.Missed = true, nil, nil, nil
	}
	return conf
}

// start binds the store to its server or cluster, and subscribes.
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

// blessNew blesses a server that has no record of an epoch. It drops the news of the quarantine that this ends.
func (s *store) blessNew(ctx context.Context) error {
	is, err := s.server.State(ctx)
	if err != nil || is.Run == "" || is.TTL != 0 {
		return err
	}
	if err := s.server.Change(ctx, epoch.Trust); err != nil {
		return err
	}
	s.events.Drop(func(e driver.Event) bool { return e.News.Closed > 0 })
	return nil
}
