// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/internal/nodewire"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
	"github.com/pawl-go/pawl/redislock/internal/keys"
)

// Open returns a client of the N masters at
//
//	redlock://[user[:password]@]host[:port],host[:port],host[:port][/database]
//
// with the parameters of redislock.Open except those of Sentinel, and tls (true for
// TLS), node_timeout, quorum, and allow_single. The user, the password and the parameters
// apply to all masters. All clients have to name the same masters.
//
// Open connects to the masters for at most ConnectTimeout, or until ctx ends. Once a quorum
// has answered, it waits for the others at most NodeTimeout, or, by default, about as long
// as the quorum took. If fewer than a quorum answer, the client connects when it is used:
// see pawl.Client.Ping.
//
// If the masters say that they are not N independent ones, the error says what to do. Open
// also returns the errors of redislock.Open and pawl.New. No error contains the password.
func Open(ctx context.Context, url string, opts *Options) (*pawl.Client, error) {
	opts = storekit.OrDefault(opts)
	own := opts.Options.Options
	return pawl.Connect(ctx, func(ctx context.Context) (driver.Store, error) { return openInto(ctx, url, opts, &own) }, &own)
}

// openInto does what NewStore does. It also stores the client's options, as the URL completes them, in own.
func openInto(ctx context.Context, url string, opts *Options, own *pawl.Options) (driver.Store, error) {
	d, o, err := open(ctx, url, opts)
	if o != nil {
		*own = o.Options.Options
	}
	return wire(d, err)
}

// wire returns d as a Store, or a nil Store if there is an error.
func wire(d *store, err error) (driver.Store, error) {
	if err != nil {
		return nil, err
	}
	return d, nil
}

// NewStore returns the wire of a client of the N masters at url, for callers that
// wrap it before they pass it to pawl.New. It returns the errors of Open.
func NewStore(ctx context.Context, url string, opts *Options) (driver.Store, error) {
	return wire(connect(ctx, url, opts))
}

func connect(ctx context.Context, url string, opts *Options) (*store, error) {
	d, _, err := open(ctx, url, opts)
	return d, err
}

func open(ctx context.Context, url string, opts *Options) (*store, *Options, error) {
	opts, places, err := parseURL(url, storekit.OrDefault(opts))
	if err != nil {
		return nil, nil, fmt.Errorf("redlock: %w", err)
	}
	conf, err := nodeConfig(opts)
	if err != nil {
		return nil, nil, err
	}
	if err := opts.check(addrsOf(places, addrOf)); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, conf.Timeout+time.Second, errSilent)
	defer cancel()
	// The nodes do not log: the restart of one node does not matter, and the store reports
	// a restart of many.
	conf.Limit.Note = opts.noted
	nodes, err := dial(ctx, places, opts, conf)
	if err != nil {
		return nil, opts, err
	}
	enroll(nodes, opts.quorum(len(nodes)))
	d, err := newStore(ctx, nodes, opts)
	return d, opts, err
}

const defaultPrefix = "pawl:"

// prefix returns the beginning of all keys. Keys of package redislock begin differently, so both packages can use one server.
func (o *Options) prefix() string { return cmp.Or(o.Prefix, defaultPrefix) + "redlock:" }

// layout returns the layout of the keys of locks.
func (o *Options) layout() (*keys.Layout, error) {
	l, err := keys.New(o.prefix(), o.Pattern)
	if err != nil {
		return nil, fmt.Errorf("redlock: %w", err)
	}
	return l, nil
}

// nodeConfig returns the configuration that all nodes share.
func nodeConfig(opts *Options) (epoch.Config, error) {
	layout, err := opts.layout()
	prefix := opts.prefix()
	return epoch.Config{
		Owned: true, Layout: layout, ID: strings.ToLower(rand.Text()), Prefix: prefix, Channel: prefix + "client:",
		Limit:   epoch.NewLimit(opts.MaxTTL, driver.Holder(opts.Holder)),
		Timeout: cmp.Or(opts.ConnectTimeout, conn.DefaultConnect), Unguarded: opts.AllowUnguarded, Scripts: scripts,
	}, err
}

// dial connects to all nodes at once. A node that is down or hangs may take long to fail.
// So once a quorum has answered, the others have NodeTimeout, or, by default, about as long
// as the quorum took. A node that fails stays a node, and connects when it can.
func dial(ctx context.Context, places []*conn.Place, opts *Options, conf epoch.Config) ([]nodewire.Node, error) {
	clients, errs := make([]rueidis.Client, len(places)), make([]error, len(places))
	dialled := make([]atomic.Bool, len(places))
	answers := make(chan int)
	for i, p := range places {
		go func() {
			clients[i], errs[i] = p.Dial(ctx)
			dialled[i].Store(true)
			answers <- i
		}()
	}
	alive, quorum, began := 0, opts.quorum(len(places)), driver.Now()
	for range places {
		if i := <-answers; errs[i] != nil {
			continue
		}
		if alive++; alive == quorum {
			timeout := opts.NodeTimeout
			if timeout == 0 {
				timeout = graceAfter(cmp.Or(opts.TTL, pawl.DefaultTTL), driver.Now().Sub(began))
			}
			late := time.AfterFunc(timeout, func() {
				for i, p := range places {
					if !dialled[i].Load() { // a node that has dialled may be connecting anew by now
						p.Contact.GiveUp()
					}
				}
			})
			defer late.Stop()
		}
	}
	return nodesAt(ctx, places, clients, errs, conf, quorum)
}

// nodesAt makes a node of each client. It returns an error if dial could not make a client.
func nodesAt(ctx context.Context, places []*conn.Place, clients []rueidis.Client, errs []error, conf epoch.Config, quorum int) ([]nodewire.Node, error) {
	var nodes []nodewire.Node
	var failed []error
	var silent misses
	for i, c := range clients {
		conf.Contact = places[i].Contact
		conf.Addr = addrOf(places[i])
		if c == nil && ctx.Err() != nil {
			silent = append(silent, miss{conf.Addr, errSilent})
			continue
		}
		if c == nil {
			failed = append(failed, fmt.Errorf("redlock: %s: %w", conf.Addr, conn.NotBound(ctx, errs[i]).Err))
			continue
		}
		n := newRedisNode(c, conf)
		n.silent = errs[i] != nil
		nodes = append(nodes, n)
	}
	if silent != nil {
		failed = append(failed, leftBy(ctx, fmt.Errorf("redlock: %w", silent.tooFew(driver.ErrUnavailable, len(places), quorum))))
	}
	if failed == nil {
		return nodes, nil
	}
	for _, n := range nodes {
		failed = append(failed, n.Close())
	}
	return nil, errors.Join(failed...)
}

// leftBy makes err an error of ctx if the caller has ended ctx. Open's own timeout, whose cause is errSilent, leaves err as it is.
func leftBy(ctx context.Context, err error) error {
	if ctx.Err() != nil && context.Cause(ctx) != errSilent {
		return fmt.Errorf("%w: %v", ctx.Err(), err)
	}
	return err
}

// Bless declares that nobody holds a lease that the masters at url may have forgotten; see
// redislock.Bless. All masters have to answer. Bless returns the errors of Open.
func Bless(ctx context.Context, url string, opts *Options) error {
	return eachNode(ctx, "bless", url, opts, epoch.Trust)
}

// SetMaxTTL changes MaxTTL of all masters at url; see redislock.SetMaxTTL. Its error names
// the masters that did not answer. Call SetMaxTTL again for them, as the error says; until
// then they learn MaxTTL from clients that know it.
func SetMaxTTL(ctx context.Context, url string, maxTTL time.Duration, opts *Options) error {
	url, err := conn.WithMaxTTL(url, maxTTL)
	if err != nil {
		return &pawl.Error{Op: "set MaxTTL", Err: fmt.Errorf("redlock: %w", err)}
	}
	return eachNode(ctx, "set MaxTTL", url, opts, epoch.Setting)
}

func eachNode(ctx context.Context, op, url string, opts *Options, mode string) error {
	d, err := connect(ctx, url, opts)
	if err != nil {
		return &pawl.Error{Op: op, Err: err}
	}
	errs := allAtOnce(d.roster.nodes, func(n *redisNode) error {
		err := n.odd() // an odd node grants nothing to clients
		if err == nil {
			err = n.server.Change(ctx, mode)
		}
		return n.named(err)
	})
	if err := errors.Join(append(errs, d.Close())...); err != nil {
		return &pawl.Error{Op: op, Err: err}
	}
	return nil
}
