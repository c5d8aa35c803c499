// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/internal/participant"
)

// Mode says how safe a commit in the store is. All clients of a store use the same mode. The first client sets
// it.
type Mode string

const (
	// Durable is the default. A lease is on disk before it is granted, so a crash of the server loses no lease. A
	// promoted replica grants nothing for MaxTTL.
	Durable Mode = "durable"
	// Synchronous is for servers with synchronous_standby_names, if every standby that may be promoted has each
	// commit. A promoted replica then lacks no lease and grants at once. A server that waits for no standby grants
	// nothing.
	Synchronous Mode = "synchronous"
	// Async does not wait for the disk. After a crash, and after the promotion of a replica, the
	// server grants nothing for MaxTTL.
	Async Mode = "async"
)

// Options are the settings of a client. The zero value and a nil *Options are valid. A parameter of the URL
// overrides its field.
type Options struct {
	pawl.Options

	// Schema contains the tables and functions. The default is "pawl". Clients exclude each other if they use the
	// same schema of the same database. A client makes the schema if it is missing.
	Schema string

	// MaxTTL is the longest TTL of any lease in the store. The first client sets it; the default is
	// pawl.DefaultTTL. Later clients use the value in the store. See SetMaxTTL.
	MaxTTL time.Duration

	// Mode says how safe a commit is. The default is Durable.
	Mode Mode

	// Listen is the URL of a direct connection to the server. Set it if the address of the store
	// leads to a pooler in transaction mode.
	Listen string

	// MaxConns limits the number of connections, without the one that listens. The default is 4.
	MaxConns int

	// Password is the password if the URL has none. If both are empty, the client uses $PAWL_POSTGRES_PASSWORD,
	// and then PostgreSQL's own variables and password file.
	Password string

	// ConnectTimeout limits the time to make a connection. The default is 5 s.
	ConnectTimeout time.Duration
}

const (
	requestTimeout = 5 * time.Second
	defaultSchema  = "pawl"
	defaultConnect = 5 * time.Second
	defaultConns   = 4
	passwordEnv    = "PAWL_POSTGRES_PASSWORD"
)

// Open returns a client of the database at url. The URL has the form that PostgreSQL's own programs accept:
//
//	postgres://[user[:password]@][host[:port],…][/database]
//
// It may have the parameters schema, max_ttl, mode, listen, max_conns, connect_timeout and password_file, and the
// parameters of PostgreSQL, such as sslmode, sslrootcert, or host for a socket. If it names several hosts, the
// client uses the one that accepts writes.
//
// Open connects, which takes at most ConnectTimeout, and makes the schema if it is missing. If the server is
// unavailable, Open succeeds, and the client connects when it is used: see pawl.Client.Ping. Other errors say what
// to do. Errors do not contain the password.
func Open(ctx context.Context, url string, opts *Options) (*pawl.Client, error) {
	opts = storekit.OrDefault(opts)
	return pawl.Connect(ctx, func(ctx context.Context) (driver.Store, error) { return NewStore(ctx, url, opts) }, &opts.Options)
}

// NewStore returns the store at url, for programs that wrap the store before they pass it to pawl.New. It returns
// the errors of Open, and ErrUnavailable if the server is unavailable.
func NewStore(ctx context.Context, url string, opts *Options) (driver.Store, error) {
	where, err := parseURL(url, storekit.OrDefault(opts))
	if err != nil {
		return nil, err
	}
	return where.open(ctx)
}

// open returns a store that is connected.
func (where *address) open(ctx context.Context) (driver.Store, error) {
	opts := &where.opts
	s := &store{
		id:       strings.ToLower(rand.Text()),
		where:    where.shown,
		schema:   cmp.Or(opts.Schema, defaultSchema),
		mode:     cmp.Or(opts.Mode, Durable),
		limit:    newLimit(opts.MaxTTL, driver.Holder(opts.Holder)),
		listener: listener{config: where.listen, ready: make(chan struct{})},
	}
	s.inBatches()
	switch {
	case s.limit.own < driver.MinTTL || opts.ConnectTimeout < 0 || opts.MaxConns < 0:
		return nil, fmt.Errorf("pglock: MaxTTL is %v, ConnectTimeout %v and MaxConns %d: use at least %v, 0 and 0", s.limit.own, opts.ConnectTimeout, opts.MaxConns, driver.MinTTL)
	case s.mode != Durable && s.mode != Synchronous && s.mode != Async:
		return nil, fmt.Errorf("pglock: there is no Mode %q: use %s, %s or %s", driver.Shorten(string(s.mode)), Durable, Synchronous, Async)
	case len(s.schema) > 63 || driver.CheckName(s.schema) != nil:
		return nil, fmt.Errorf("pglock: schema %q: use at most 63 letters and digits", driver.Shorten(s.schema))
	}
	if opts.TTL > s.limit.own { // else the client could set a MaxTTL that is too short for its own TTL
		return nil, fmt.Errorf("pglock: %w", storekit.RefuseHere(opts.TTL, s.limit.own, s.limit.explicit))
	}
	if opts.Logger != nil {
		s.limit.note = func(text string) { opts.Logger.Warn("pglock: " + text) }
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.pool = newPool(s.ctx, where.config, cmp.Or(opts.MaxConns, defaultConns), cmp.Or(opts.ConnectTimeout, defaultConnect), s.replaced)
	s.pool.before = where.before
	if err := s.start(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("pglock: %w", participant.Worded(driver.Failure{Err: err}))
	}
	return s, nil
}

// start connects, makes the schema if it is missing, and binds the store to the server's run.
func (s *store) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.pool.timeout+requestTimeout)
	defer cancel()
	c, err := s.pool.get(ctx)
	if err == nil {
		err = s.make(ctx, c)
		s.pool.put(c, err == nil)
	}
	if err == nil {
		err = s.bind(ctx, 0)
	}
	if err == nil {
		s.work.Go(s.tidy)
	}
	return err
}

// Bless declares that no client holds a lease that the server at url may lack. It ends the quarantine after a
// crash or the promotion of a replica. Call it only after every holder has ended or was stopped. If opts or the
// URL have a MaxTTL, Bless sets it, too. Bless returns the errors of Open.
func Bless(ctx context.Context, url string, opts *Options) error {
	return change(ctx, "bless", url, opts, true)
}

// SetMaxTTL changes MaxTTL of the store at url for all clients. You can call it at any time; running clients adopt
// the value with their next lease. A longer MaxTTL takes effect at once, a shorter one with the next lease or
// renewal. A quarantine still lasts until every lease with the longer one must have ended. SetMaxTTL returns the
// errors of Open.
func SetMaxTTL(ctx context.Context, url string, maxTTL time.Duration, opts *Options) error {
	with := *storekit.OrDefault(opts)
	with.MaxTTL, with.TTL = maxTTL, 0 // no lease is asked for, so open need not check a TTL
	return change(ctx, "set MaxTTL", url, &with, false)
}

func change(ctx context.Context, op, url string, opts *Options, bless bool) error {
	d, err := NewStore(ctx, url, opts)
	if err != nil {
		return &pawl.Error{Op: op, Err: err}
	}
	defer d.Close()
	s := d.(*store)
	ttl := int64(0)
	if s.limit.explicit {
		ttl = s.limit.own.Microseconds()
	}
	if _, err := s.call(ctx, "change", num(ttl), s.limit.who, boolean(bless)); err != nil {
		return &pawl.Error{Op: op, Err: fmt.Errorf("pglock: %w", participant.Worded(driver.Failure{Err: err, Maybe: driver.FailureOf(err).Maybe}))}
	}
	return nil
}
