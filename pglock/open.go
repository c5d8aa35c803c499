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

// Mode says what a commit in the store is worth. All clients of a store have the same:
// the first one sets it.
type Mode string

const (
	// Durable is the default: a lease is on disk before it is granted. After a crash
	// of the server no lease is missing. After a replica was promoted nothing is granted
	// for MaxTTL.
	Durable Mode = "durable"
	// Synchronous is for a server with synchronous_standby_names of which any that may
	// be promoted has each commit: nothing is missing on it. A server that does not wait
	// for a standby grants nothing.
	Synchronous Mode = "synchronous"
	// Async does not wait for the disk. After a crash of the server, and after a replica
	// was promoted, nothing is granted for MaxTTL.
	Async Mode = "async"
)

// Options are the settings of a client on a PostgreSQL database. The zero value is
// useful, and a nil *Options is the same. The URL takes precedence.
type Options struct {
	pawl.Options

	// Schema has the tables and functions; "pawl" unless set. Clients with the same
	// schema of the same database exclude each other. It is made if it is missing.
	Schema string

	// MaxTTL is the longest TTL of any lease in the store; that of pawl.DefaultTTL
	// unless set. The first client of a store sets it, and others use the store's. See
	// SetMaxTTL.
	MaxTTL time.Duration

	// Mode says what a commit is worth; Durable unless set.
	Mode Mode

	// Listen is the URL of a direct connection, if the address of the store is a
	// pooler's in transaction mode.
	Listen string

	// MaxConns is how many connections there are at most, besides one that listens; 4
	// unless set.
	MaxConns int

	// Password is sent to the server if the URL has none. Without a password here, in
	// the URL or in a file, those of $PAWL_POSTGRES_PASSWORD and of PostgreSQL's own
	// variables and files are used.
	Password string

	// ConnectTimeout bounds the making of a connection; 5 s unless set.
	ConnectTimeout time.Duration
}

const (
	requestTimeout = 5 * time.Second
	defaultSchema  = "pawl"
	defaultConnect = 5 * time.Second
	defaultConns   = 4
	passwordEnv    = "PAWL_POSTGRES_PASSWORD"
)

// Open returns a client of the database at url, which is one that PostgreSQL's own
// programs accept:
//
//	postgres://[user[:password]@][host[:port],…][/database]
//
// with the parameters schema, max_ttl, mode, listen, max_conns, connect_timeout,
// password_file, and those of PostgreSQL, such as sslmode, sslrootcert, or host for a
// socket. Of several hosts the one that can be written to is used. Open connects, for at
// most ConnectTimeout and until ctx ends, and makes the schema if it is missing. If the server
// is unavailable at that moment, the client connects when it is used: see pawl.Client.Ping. Any
// other error says what to do. No error contains the password.
func Open(ctx context.Context, url string, opts *Options) (*pawl.Client, error) {
	opts = orDefault(opts)
	return pawl.Connect(ctx, func(ctx context.Context) (driver.Store, error) { return NewStore(ctx, url, opts) }, &opts.Options)
}

// NewStore returns the wire of a client of the database at url, for callers that wrap it before
// they pass it to pawl.New. Its errors are those of Open.
func NewStore(ctx context.Context, url string, opts *Options) (driver.Store, error) {
	where, err := parseURL(url, orDefault(opts))
	if err != nil {
		return nil, err
	}
	return where.open(ctx)
}

// open returns a participant that is connected.
func (where *address) open(ctx context.Context) (driver.Store, error) {
	s, err := newStore(ctx, where)
	if err != nil {
		return nil, err
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

// newStore returns a store that is connected.
func newStore(ctx context.Context, where *address) (*store, error) {
	opts := &where.opts
	s := &store{
		id:     strings.ToLower(rand.Text()),
		where:  where.shown,
		schema: cmp.Or(opts.Schema, defaultSchema),
		mode:   cmp.Or(opts.Mode, Durable),
		limit:  newLimit(opts.MaxTTL, opts.Holder),
		ear:    ear{config: where.listen, ready: make(chan struct{})},
	}
	s.sql = newStatements(s.schema)
	s.inBatches()
	switch {
	case s.limit.own < driver.MinTTL || opts.ConnectTimeout < 0 || opts.MaxConns < 0:
		return nil, fmt.Errorf("pglock: MaxTTL %v, connect timeout %v or MaxConns %d is too small", s.limit.own, opts.ConnectTimeout, opts.MaxConns)
	case s.mode != Durable && s.mode != Synchronous && s.mode != Async:
		return nil, fmt.Errorf("pglock: there is no Mode %q: use %s, %s or %s", driver.Shorten(string(s.mode)), Durable, Synchronous, Async)
	case len(s.schema) > 63 || driver.CheckName(s.schema) != nil:
		return nil, fmt.Errorf("pglock: schema %q: use at most 63 letters and digits", driver.Shorten(s.schema))
	}
	if opts.TTL > s.limit.own { // before it sets a MaxTTL that is too short for itself
		return nil, fmt.Errorf("pglock: %w", storekit.RefuseHere(opts.TTL, s.limit.own, s.limit.explicit))
	}
	if opts.Logger != nil {
		s.limit.note = func(text string) { opts.Logger.Warn("pglock: " + text) }
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.pool = newPool(where.config, cmp.Or(opts.MaxConns, defaultConns), cmp.Or(opts.ConnectTimeout, defaultConnect), s.replaced)
	s.pool.before = where.before
	if err := s.start(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("pglock: %w", participant.Worded(driver.Failure{Err: err}))
	}
	return s, nil
}

// start connects, makes the schema if it is missing, and binds the store to the run of
// the server.
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

// Bless declares that nobody holds a lease that the server at url may lack. It ends the
// quarantine after a replica was promoted, or a crash. Call it only when every holder has
// ended or was stopped. If opts or the URL name a MaxTTL, the store has that from then on.
// The errors are those of Open.
func Bless(ctx context.Context, url string, opts *Options) error {
	return change(ctx, "bless", url, opts, true)
}

// SetMaxTTL changes MaxTTL of the store at url for all its clients. It can be used at
// any time: running clients adopt the new one with their next lease. A longer MaxTTL
// takes effect at once. A shorter one takes effect for new leases and for renewals; a
// quarantine still lasts until the last lease with the longer one must have ended. The
// errors are those of Open.
func SetMaxTTL(ctx context.Context, url string, maxTTL time.Duration, opts *Options) error {
	with := *orDefault(opts)
	with.MaxTTL, with.TTL = maxTTL, 0 // nothing is asked for, so no TTL is too long
	return change(ctx, "set MaxTTL", url, &with, false)
}

func change(ctx context.Context, op, url string, opts *Options, bless bool) error {
	where, err := parseURL(url, orDefault(opts))
	if err != nil {
		return &pawl.Error{Op: op, Err: err}
	}
	s, err := newStore(ctx, where)
	if err != nil {
		return &pawl.Error{Op: op, Err: err}
	}
	defer s.Close()
	ttl := int64(0)
	if s.limit.explicit {
		ttl = s.limit.own.Microseconds()
	}
	if _, err := s.call(ctx, s.sql.change, num(ttl), s.limit.who, boolean(bless)); err != nil {
		return &pawl.Error{Op: op, Err: fmt.Errorf("pglock: %w", participant.Worded(driver.Failure{Err: err, Maybe: driver.FailureOf(err).Maybe}))}
	}
	return nil
}
