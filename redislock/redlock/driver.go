// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/server"
)

// Driver is one participant.
type Driver struct {
	members []*member
	quorum  int
	maxTTL  time.Duration
	fixed   time.Duration // Options.NodeTimeout
	connect time.Duration // how long a node may take to say how it is
	clock   func() time.Time
	log     *slog.Logger // may be nil

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	grants, rounds, splits, looks atomic.Int64

	mu     sync.Mutex // guards the fields below
	closed bool
	work   sync.WaitGroup // Add under mu, while not closed
	random *rand.Rand
	took   time.Duration  // how long a round takes, about; 0 if there was none
	warned driver.Instant // when closed nodes were told last
}

var (
	_ driver.Queuer    = (*Driver)(nil)
	_ driver.Inspector = (*Driver)(nil)
)

var (
	// ErrNotIndependent is the error of a Status that says that a node cannot be one
	// of N independent masters: it is a replica, or part of a cluster.
	ErrNotIndependent = errors.New("not an independent master")

	errClosed = errors.New("redlock: the client is closed")
	errSilent = errors.New("no answer in time")
)

func unavailable(err error) error { return fmt.Errorf("%w: %w", driver.ErrUnavailable, err) }

// NewDriverFor returns the driver of a client on nodes, which it closes in the
// end. It returns an error that says what to do if the nodes cannot be the N
// independent masters of the algorithm, as far as they tell, and ErrUnavailable
// if fewer than a quorum answer.
func NewDriverFor(ctx context.Context, nodes []Node, opts *Options) (*Driver, error) {
	opts = orDefault(opts)
	d := &Driver{
		quorum:  cmp.Or(opts.Quorum, len(nodes)/2+1),
		maxTTL:  cmp.Or(opts.MaxTTL, max(opts.TTL, pawl.DefaultTTL)),
		fixed:   opts.NodeTimeout,
		connect: cmp.Or(opts.ConnectTimeout, server.DefaultConnect),
		clock:   opts.WallClock,
		log:     opts.Logger,
	}
	if d.clock == nil {
		d.clock = time.Now
	}
	d.random = rand.New(source(opts))
	d.ctx, d.cancel = context.WithCancel(context.Background())
	for _, n := range nodes {
		d.members = append(d.members, &member{Node: n, d: d, poke: make(chan struct{}, 1),
			random: rand.New(rand.NewPCG(d.random.Uint64(), d.random.Uint64()))})
	}
	err := d.checkOptions(opts)
	if err == nil {
		err = d.checkNodes(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// source returns where random delays come from. In a bubble of fake time it is the
// same in every run.
func source(opts *Options) rand.Source {
	if opts.Rand != nil {
		return opts.Rand
	}
	h := fnv.New64()
	fmt.Fprint(h, opts.Holder)
	return rand.NewPCG(h.Sum64(), uint64(time.Now().UnixNano()))
}

func (d *Driver) checkOptions(opts *Options) error {
	n := len(d.members)
	switch {
	case n == 1 && !opts.AllowSingle:
		return errors.New("redlock: one node is no quorum: name three or five, or use redislock (redis://) for one server")
	case n == 0, n == 2, n%2 == 0:
		return fmt.Errorf("redlock: %d nodes: name an odd number, three or more: with %d nodes no more may fail than with %d", n, n, max(n-1, 1))
	case d.quorum <= n/2 || d.quorum > n:
		return fmt.Errorf("redlock: Quorum %d of %d nodes: use %d to %d", d.quorum, n, n/2+1, n)
	case d.fixed < 0:
		return fmt.Errorf("redlock: NodeTimeout %v is negative", d.fixed)
	case d.connect < 0:
		return fmt.Errorf("redlock: the connect timeout %v is negative", d.connect)
	case d.maxTTL < driver.MinTTL:
		return fmt.Errorf("redlock: MaxTTL %v is too short: use %v or more", d.maxTTL, driver.MinTTL)
	}
	return d.checkTTL(opts.TTL)
}

// checkNodes asks all nodes who they are.
func (d *Driver) checkNodes(ctx context.Context) error {
	addrs, runs, alive := make(map[string]bool), make(map[string]string), 0
	for _, m := range d.members {
		if addrs[m.Addr()] {
			return fmt.Errorf("redlock: %s is named twice: name each node once", m.Addr())
		}
		addrs[m.Addr()] = true
	}
	var errs []error
	for _, s := range d.Nodes(ctx) {
		if s.Err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.Addr, s.Err))
			continue
		}
		alive++
		if other := runs[s.Run]; s.Run != "" && other != "" {
			return fmt.Errorf("redlock: %s and %s are the same server (run_id %s): name each server once", other, s.Addr, s.Run)
		}
		runs[s.Run] = s.Addr
	}
	switch err := errors.Join(errs...); {
	case alive >= d.quorum && !errors.Is(err, ErrNotIndependent):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case alive >= d.quorum:
		return fmt.Errorf("redlock: %w", err)
	default:
		return fmt.Errorf("redlock: %d of %d nodes answer, and %d have to: %w", alive, len(d.members), d.quorum, unavailable(err))
	}
}

// Nodes asks all nodes how they are, and returns that in the order of the nodes. It
// waits for ConnectTimeout at most, and once a quorum has answered no more than a
// second for the others.
func (d *Driver) Nodes(ctx context.Context) []Status {
	ctx, cancel := context.WithTimeout(ctx, d.connect)
	defer cancel()
	type numbered struct {
		i int
		Status
	}
	answers := make(chan numbered, len(d.members))
	all := make([]Status, len(d.members))
	for i, m := range d.members {
		all[i] = Status{Addr: m.Addr(), Err: errSilent}
		if !d.background(func() {
			s, err := m.Status(ctx)
			if err != nil {
				s = Status{Err: err}
			}
			s.Addr = m.Addr()
			answers <- numbered{i, s}
		}) {
			all[i].Err = errClosed
		}
	}
	var enough <-chan time.Time
	alive := 0
	for range d.members {
		select {
		case a := <-answers:
			all[a.i] = a.Status
			if a.Err == nil {
				alive++
			}
			if alive == d.quorum && enough == nil {
				enough = time.After(lookTimeout)
			}
		case <-enough:
			return all
		case <-ctx.Done():
			return all
		}
	}
	return all
}

// Stats counts what the driver has done since it was made.
type Stats struct {
	Grants int64 // leases that were granted
	Rounds int64 // rounds of proposals to the nodes for that
	Splits int64 // rounds after which nobody had a quorum
	Looks  int64 // rounds of reading while waiting
}

// Stats returns the counters.
func (d *Driver) Stats() Stats {
	return Stats{d.grants.Load(), d.rounds.Load(), d.splits.Load(), d.looks.Load()}
}

// Guarantees implements driver.Driver.
//
// SurvivesRestart is false although no restart gives a name to a second holder: if
// a majority restarts without persistence, holders lose their leases.
func (d *Driver) Guarantees() driver.Guarantees {
	return driver.Guarantees{Fencing: true, CrossHost: true, Expiry: true}
}

// usable returns why a request cannot be made.
func (d *Driver) usable(ctx context.Context, req *driver.Request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if d.ctx.Err() != nil {
		return unavailable(errClosed)
	}
	if req == nil {
		return nil
	}
	if req.Lease == "" || strings.ContainsAny(req.Lease, ". \n") {
		return fmt.Errorf("redlock: lease id %q: use letters and digits", driver.Shorten(req.Lease))
	}
	return d.checkTTL(req.TTL)
}

func (d *Driver) checkTTL(ttl time.Duration) error {
	if ttl > d.maxTTL {
		return fmt.Errorf("redlock: TTL %v is longer than MaxTTL %v: all clients must know the longest TTL in use; raise MaxTTL (?max_ttl=) for all of them", ttl, d.maxTTL)
	}
	return nil
}

// timeout returns how long a node may take to answer, for a lease with the TTL.
func (d *Driver) timeout(ttl time.Duration) time.Duration {
	return min(cmp.Or(d.fixed, max(ttl/200, 5*time.Millisecond)), ttl)
}

// background runs f in a goroutine that Close waits for, and returns false if the
// driver is closed.
func (d *Driver) background(f func()) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.work.Go(f)
	return true
}

// told says what nobody else is told.
func (d *Driver) told(err error) {
	if d.log != nil {
		d.log.Warn("redlock: " + err.Error())
	}
}

// Close implements driver.Driver. It waits until requests that are under way have
// ended, each of which has a timeout.
func (d *Driver) Close() error {
	d.mu.Lock()
	first := !d.closed
	d.closed = true
	d.mu.Unlock()
	d.cancel()
	d.work.Wait()
	var errs []error
	for _, m := range d.members {
		if first {
			errs = append(errs, m.Node.Close())
		}
	}
	return errors.Join(errs...)
}
