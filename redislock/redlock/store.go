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
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/internal/nodewire"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
	"github.com/pawl-go/pawl/redislock/internal/keys"
)

// store is the wire to N masters.
type store struct {
	driver.Basic // for Hear, which does nothing: the client's own channels are open from the beginning

	members   []*member
	every     []int // the indexes of members
	quorum    int
	roster    *roster // nil if the nodes are no servers
	layout    *keys.Layout
	maxTTL    time.Duration
	ttl       time.Duration // Options.TTL, and the time limit of requests that concern no one lease
	fixed     time.Duration // Options.NodeTimeout
	connect   time.Duration // how long a node may take to report its state
	clock     func() time.Time
	log       *slog.Logger // may be nil
	events    storekit.Outbox[driver.Event]
	assumeNew bool // see redislock.Options

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	base   context.Context // for work in the background; ends up to a grace later
	cut    context.CancelFunc

	gate gate

	rounds atomic.Int64 // of proposals

	jobs chan func()  // to the goroutines that wait for work
	idle atomic.Int32 // how many of them there are; Close does not lower it

	mu      sync.Mutex // guards the fields below
	closed  bool
	work    sync.WaitGroup // Add under mu, while not closed
	random  *rand.Rand
	waiting map[string]*turn  // of waiters in the queues, by the lease id of the claim
	handed  map[string]uint64 // by name; see handOver
	warned  driver.Instant    // when closed nodes were last reported
}

var (
	// ErrNotIndependent is the Err of a Status whose node cannot be one of N independent
	// masters: it is a replica, or part of a cluster.
	ErrNotIndependent = errors.New("not an independent master")

	errClosed = fmt.Errorf("redlock: %w", driver.ErrClosed)
	errSilent = errors.New("no answer in time")
)

func unavailable(err error) error { return fmt.Errorf("%w: %w", driver.ErrUnavailable, err) }

// NewStoreOn returns the wire of a client on nodes, for the simulator. Its Close closes the nodes.
func NewStoreOn(ctx context.Context, nodes []nodewire.Node, opts *Options) (driver.Store, error) {
	return wire(newStore(ctx, nodes, opts))
}

// newStore returns the wire of a client on nodes. Its Close closes the nodes. If the nodes
// say that they are not N independent masters, the error says what to do. If fewer than a
// quorum answer, the error is ErrUnavailable.
func newStore(ctx context.Context, nodes []nodewire.Node, opts *Options) (*store, error) {
	opts = storekit.OrDefault(opts)
	d := &store{
		quorum:    opts.quorum(len(nodes)),
		maxTTL:    opts.maxTTL(),
		ttl:       cmp.Or(opts.TTL, pawl.DefaultTTL),
		fixed:     opts.NodeTimeout,
		connect:   cmp.Or(opts.ConnectTimeout, conn.DefaultConnect),
		clock:     opts.WallClock,
		log:       opts.Logger,
		assumeNew: opts.AssumeNew,
		waiting:   make(map[string]*turn),
		handed:    make(map[string]uint64),
	}
	if d.clock == nil {
		d.clock = time.Now
	}
	d.gate.room = minRoom
	d.jobs = make(chan func())
	d.random = rand.New(source(opts))
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.base, d.cut = context.WithCancel(context.Background())
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, n.Addr())
		n.Tell(func(m nodewire.Message) {
			if m.Run == "" {
				m.Run = n.Addr() // a node that does not know its run has one vote too
			}
			d.told(m)
		})
		m := &member{Node: n, d: d, poke: make(chan struct{}, 1),
			random: rand.New(rand.NewPCG(d.random.Uint64(), d.random.Uint64()))}
		if r, ok := n.(*redisNode); ok {
			d.roster = r.roster
			if r.silent {
				m.owes = silentSince(driver.Now())
			}
		}
		d.every = append(d.every, len(d.members))
		d.members = append(d.members, m)
	}
	err := opts.check(addrs)
	if err == nil {
		d.layout, err = opts.layout()
	}
	if err == nil {
		err = d.checkNodes(ctx)
	} else {
		d.fixed = d.ttl // for Close: fewer nodes than a quorum have no round trip to a quorum
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// source returns the source of random delays. In the fake time of testing/synctest every
// run has the same source.
func source(opts *Options) rand.Source {
	if opts.Rand != nil {
		return opts.Rand
	}
	h := fnv.New64()
	fmt.Fprint(h, opts.Holder)
	return rand.NewPCG(h.Sum64(), uint64(time.Now().UnixNano()))
}

// lookEvery is how often a waiter looks, in case a message was lost. A waiter also expects
// a node that does not answer to be back after this time.
const lookEvery = 2 * time.Second

// Caps implements driver.Store.
//
// SurvivesRestart is false: if a majority restarts without persistence, holders lose their
// leases. Even then a name has at most one holder.
func (d *store) Caps() driver.Caps {
	return driver.Caps{
		Guarantees: driver.Guarantees{Fencing: true, CrossHost: true, Expiry: true, Shared: true},
		Queue:      true, Look: lookEvery, Shows: true, Bounded: true, Paces: true, LongerTTL: true,
	}
}

// Listen implements driver.Store.
func (d *store) Listen(f func(driver.Event)) { d.events.To(f) }

// usable returns an error if the store is closed or ctx has ended.
func (d *store) usable(ctx context.Context) error {
	if d.ctx.Err() != nil {
		return unavailable(errClosed)
	}
	return ctx.Err()
}

// check returns an error for a request for a lease that no node could ever grant.
func (d *store) check(req *driver.Request) error {
	if req.Lease == "" || strings.ContainsAny(req.Lease, ". \n") {
		return fmt.Errorf("redlock: lease id %q: use letters and digits", driver.Shorten(req.Lease))
	}
	if req.Slots > 0 {
		return fmt.Errorf("redlock: one of %d slots: nodes that are a quorum for one holder do not know of all the others, so nobody could count them; use one server (redis://), ZooKeeper or etcd: %w",
			req.Slots, errors.ErrUnsupported)
	}
	if err := d.layout.Check(req.Name); err != nil {
		return fmt.Errorf("redlock: %w", err)
	}
	return checkTTL(req.TTL, d.maxTTL)
}

// checkTTL returns an error if ttl is longer than the MaxTTL of this client. A longer
// MaxTTL at the nodes does not help: such nodes grant nothing to this client.
func checkTTL(ttl, maxTTL time.Duration) error {
	if ttl <= maxTTL {
		return nil
	}
	return fmt.Errorf("redlock: %w", epoch.NewLimit(maxTTL, driver.Holder{}).Check(ttl))
}

// background runs f in a goroutine that Close waits for, and returns false if the
// store is closed.
func (d *store) background(f func()) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	select {
	case d.jobs <- f:
	default:
		d.work.Go(func() { d.serve(f) })
	}
	return true
}

// resident is how many goroutines wait for the next job. A new goroutine would have to grow its stack first.
const resident = 8

// serve runs f. Then it waits for further jobs, unless resident goroutines do that already.
func (d *store) serve(f func()) {
	f()
	if d.idle.Add(1) <= resident {
		for {
			select {
			case f := <-d.jobs:
				f()
			case <-d.ctx.Done():
				return
			}
		}
	}
	d.idle.Add(-1)
}

// logged logs an error that no caller gets.
func (d *store) logged(err error) {
	if d.log != nil {
		d.log.Warn("redlock: " + err.Error())
	}
}

// Close implements driver.Store. It waits for the requests that are under way. After a
// grace it cuts them off.
func (d *store) Close() error {
	d.mu.Lock()
	first := !d.closed
	d.closed = true
	d.mu.Unlock()
	d.cancel()
	idle := make([]bool, len(d.members))
	for i, m := range d.members {
		idle[i] = m.idle()
	}
	cut := time.AfterFunc(max(d.behind(idle), minDebtPause), d.cut)
	d.work.Wait()
	cut.Stop()
	d.cut()
	errs := make([]error, len(d.members))
	if first {
		var closing sync.WaitGroup
		for i, m := range d.members {
			if r, ok := m.Node.(*redisNode); ok {
				r.deaf = m.owes.since != 0 // read without m.mu: nothing is under way any more
			}
			closing.Go(func() { errs[i] = m.Node.Close() })
		}
		closing.Wait()
	}
	return errors.Join(errs...)
}
