// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// Options are the settings of a client of an etcd cluster. The zero value and a nil *Options are valid. A
// parameter of the URL overrides its field.
type Options struct {
	pawl.Options

	// Prefix begins every key. The default is "pawl/". Clients exclude each other if they have the same Prefix. No
	// Prefix in use may begin with another one.
	Prefix string

	// Pattern, such as /locks/*, says where the keys of a lock are; the * stands for the name. The default is
	// PREFIXlock/*. Set it while programs lock with the Mutex of etcd's concurrency package, or with etcdctl lock.
	// For example, concurrency.NewMutex(session, "/locks/deploy") and the name deploy then exclude each other.
	// Give all clients the same Pattern, as nothing compares them. With a Pattern all leases are exclusive,
	// KeepIdle is an error, and a name cannot have a / or a %. See docs/migrating.md.
	Pattern string

	// Username and Password log the client in. By default the client has no user. The password may also come from
	// the URL, its password_file, or $PAWL_ETCD_PASSWORD.
	Username, Password string

	// TLS is the configuration for etcds URLs. By default the client trusts the system's certificate authorities.
	TLS *tls.Config

	// ConnectTimeout limits each attempt to connect. The default is 5 s.
	ConnectTimeout time.Duration
}

const (
	requestTimeout = 5 * time.Second
	defaultPrefix  = "pawl/"
	defaultConnect = 5 * time.Second
	passwordEnv    = "PAWL_ETCD_PASSWORD"
)

// Open returns a client of the cluster at url, which has one of these forms:
//
//	etcd://[user[:password]@]host[:port][,host[:port]…][/prefix]
//	etcds://…                                                     with TLS
//
// The parameters are pattern, connect_timeout, password_file, ca_file, cert_file, key_file and server_name. Open
// connects, which takes at most ConnectTimeout. If the cluster is unavailable, Open succeeds, and the client
// connects when it is used: see pawl.Client.Ping. Other errors, such as missing rights, say what to do. Errors do
// not contain the password.
func Open(ctx context.Context, url string, opts *Options) (*pawl.Client, error) {
	opts = storekit.OrDefault(opts)
	return pawl.Connect(ctx, func(ctx context.Context) (driver.Store, error) { return NewStore(ctx, url, opts) }, &opts.Options)
}

// New returns a pawl client that uses client and never closes it. New ignores the connection options in opts.
//
// Configure client to reconnect quickly, with grpc.WithConnectParams. By default gRPC's delay grows to two
// minutes.
func New(client *clientv3.Client, opts *Options) (*pawl.Client, error) {
	opts = storekit.OrDefault(opts)
	return pawl.Connect(context.Background(), func(context.Context) (driver.Store, error) { return NewStoreFor(client, opts) }, &opts.Options)
}

// NewStore returns the store at url, for programs that wrap the store before they pass it to pawl.New. It returns
// the errors of Open, and ErrUnavailable if the cluster is unavailable.
func NewStore(ctx context.Context, url string, opts *Options) (driver.Store, error) {
	where, err := parseURL(url, storekit.OrDefault(opts))
	if err != nil {
		return nil, err
	}
	s, err := newStore(&where.opts)
	if err != nil {
		return nil, err
	}
	s.where, s.links = where.hosts, &links{conns: make(map[*link]bool)}
	if o := &where.opts; o.Username != "" && o.Password != "" {
		s.session = &session{username: o.Username, password: o.Password}
	}
	if s.client, err = clientv3.New(where.config(s)); err == nil {
		err = s.start(ctx)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("etcdlock: %w", err)
	}
	return s, nil
}

// NewStoreFor returns a store that uses client, which the caller has made. The store never closes client.
func NewStoreFor(client *clientv3.Client, opts *Options) (driver.Store, error) {
	// Package namespace wraps KV, Watcher and Lease separately. If one of them is not wrapped, waiters miss the
	// releases.
	if kv := clientv3.NewKV(client); reflect.TypeOf(client.KV) != reflect.TypeOf(kv) {
		return nil, fmt.Errorf("etcdlock: the client's KV is a %T: use a client without a namespace, and write that into Prefix and Pattern", client.KV)
	}
	s, err := newStore(storekit.OrDefault(opts))
	if err != nil {
		return nil, err
	}
	s.client, s.where = client, strings.Join(client.Endpoints(), ", ")
	if err := s.start(context.Background()); err != nil {
		s.Close()
		return nil, fmt.Errorf("etcdlock: %w", err)
	}
	return s, nil
}

// newStore returns a store without a client.
func newStore(opts *Options) (*store, error) {
	s := &store{
		id:      strings.ToLower(rand.Text()),
		prefix:  cmp.Or(opts.Prefix, defaultPrefix),
		connect: cmp.Or(opts.ConnectTimeout, defaultConnect),
		streams: make(chan struct{}, maxStreams),
		spares:  make(map[int64][]*backing),
		backed:  make(map[clientv3.LeaseID]*lease),
	}
	s.proofs = storekit.Batch[string, *proof]{Few: fewReads, Most: mostAsked, Wait: lateRead, Alone: s.readOne, Together: s.readAll}
	if !strings.HasSuffix(s.prefix, "/") {
		s.prefix += "/"
	}
	if driver.CheckName(s.prefix) != nil {
		return nil, fmt.Errorf("etcdlock: prefix %q: use printable characters", driver.Shorten(s.prefix))
	}
	var err error
	if s.layout, err = newLayout(s.prefix, opts.Pattern); err != nil {
		return nil, err
	}
	if s.connect < 0 {
		return nil, fmt.Errorf("etcdlock: connect timeout %v is negative: use one such as 5s, or 0 for the default", s.connect)
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// start waits for a connection, and checks that the cluster answers requests of this user.
func (s *store) start(ctx context.Context) error {
	rctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), s.connect)
	defer cancel()
	conn := s.client.ActiveConnection()
	if conn == nil {
		return fmt.Errorf("a client without a connection: %w", errors.ErrUnsupported)
	}
	s.backings = pb.NewLeaseClient(conn)
	for state := connectivity.Idle; s.links != nil && state != connectivity.Ready; state = conn.GetState() {
		if state == connectivity.TransientFailure { // all members have failed
			return s.refusal(ctx, s.dialError(rctx))
		}
		conn.Connect()
		if !conn.WaitForStateChange(rctx, state) {
			break
		}
	}
	if s.session != nil { // the first login checks the password
		if err := s.session.renew(rctx, conn, 0, nil); err != nil {
			return s.refusal(ctx, err)
		}
	}
	if _, err := s.client.Get(rctx, s.layout.head, clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithKeysOnly()); err != nil {
		return s.refusal(ctx, err)
	}
	if s.throughProxy(rctx) {
		return fmt.Errorf("%s: this is etcd's grpc-proxy, which answers renewals by itself: connect to the members of the cluster, or through etcd gateway: %w",
			s.where, errors.ErrUnsupported)
	}
	return nil
}

// refusal returns the error of a cluster that cannot be used.
func (s *store) refusal(ctx context.Context, err error) error {
	if f := s.failure(ctx, err, false); ctx.Err() == nil {
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, f)
	}
	return ctx.Err()
}

// throughProxy reports whether an etcd grpc-proxy answers. By default the proxy has an address to advertise. Then
// it lists itself as the only member, and its answer has no header that names a cluster.
//
// The proxy sends keepalives of its own. It answers the client's keepalive with the next answer that it gets,
// which may belong to an earlier keepalive. So trust could not count from the client's sending. The proxy also
// keeps a lease alive for a TTL after the client has gone.
func (s *store) throughProxy(ctx context.Context) bool {
	resp, err := pb.NewClusterClient(s.client.ActiveConnection()).MemberList(ctx, new(pb.MemberListRequest), grpc.WaitForReady(true))
	return err == nil && resp.Header == nil // err may only say that the user lacks the right
}
