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
	driver.Basic // Hear: a client hears what concerns it from the beginning

	members   []*member
	every     []int // their indexes
	quorum    int
	roster    *roster // nil if the nodes are no servers
	layout    *keys.Layout
	maxTTL    time.Duration
	ttl       time.Duration // of most leases, and the limit of other requests
	fixed     time.Duration // Options.NodeTimeout
	connect   time.Duration // how long a node may take to report its state
	clock     func() time.Time
	log       *slog.Logger // may be nil
	events    storekit.Outbox[driver.Event]
	assumeNew bool // see redislock.Options

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	base   context.Context // of work in the background; ends one node timeout later
	cut    context.CancelFunc

	gate gate

	grants, rounds, splits, looks atomic.Int64

	jobs chan func()  // for idle goroutines
	idle atomic.Int32 // how many there are, or have been

	mu      sync.Mutex // guards the fields below
	closed  bool
	work    sync.WaitGroup // Add under mu, while not closed
	random  *rand.Rand
	waiting map[string]*turn      // by the id of the claim; those in the queues
	handed  map[string]handedOver // by name
	warned  driver.Instant        // when closed nodes were last reported
}

var (
	// ErrNotIndependent is the error of a Status that says that a node cannot be one
	// of N independent masters: it is a replica, or part of a cluster.
	ErrNotIndependent = errors.New("not an independent master")

	errClosed = fmt.Errorf("redlock: %w", driver.ErrClosed)
	errSilent = errors.New("no answer in time")
)

func unavailable(err error) error { return fmt.Errorf("%w: %w", driver.ErrUnavailable, err) }

// NewStoreOn returns the wire of a client on nodes, for the simulator. Its Close closes them.
func NewStoreOn(ctx context.Context, nodes []nodewire.Node, opts *Options) (driver.Store, error) {
	return wire(newStore(ctx, nodes, opts))
}

// newStore returns the wire of a client on nodes, which its Close closes. If the
// nodes say that they are not N independent masters, the error says what to do. It is
// ErrUnavailable if fewer than a quorum answer.
func newStore(ctx context.Context, nodes []nodewire.Node, opts *Options) (*store, error) {
	opts = orDefault(opts)
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
				m.Run = n.Addr() // one that does not know its run has one vote too
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
		d.fixed = d.ttl // there may be no quorum of nodes, and so no round trip to one
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// source returns the source of random delays. In a bubble of fake time it is the same
// in every run.
func source(opts *Options) rand.Source {
	if opts.Rand != nil {
		return opts.Rand
	}
	h := fnv.New64()
	fmt.Fprint(h, opts.Holder)
	return rand.NewPCG(h.Sum64(), uint64(time.Now().UnixNano()))
}

// lookEvery is how often a waiter looks, in case a message was lost, and the time
// after which a node that does not answer is expected to.
const lookEvery = 2 * time.Second

// Caps implements driver.Store.
//
// SurvivesRestart is false although no restart gives a name to a second holder: if
// a majority restarts without persistence, holders lose their leases.
func (d *store) Caps() driver.Caps {
	return driver.Caps{
		Guarantees: driver.Guarantees{Fencing: true, CrossHost: true, Expiry: true, Shared: true},
		Queue:      true, Look: lookEvery, Shows: true, Bounded: true, Paces: true, LongerTTL: true,
	}
}

// Listen implements driver.Store.
func (d *store) Listen(f func(driver.Event)) { d.events.To(f) }

// usable returns why no request can be made.
func (d *store) usable(ctx context.Context) error {
	if d.ctx.Err() != nil {
		return unavailable(errClosed)
	}
	return ctx.Err()
}

// check returns why a request for a lease is never granted.
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

// checkTTL returns an error for a TTL that is longer than MaxTTL as this client has it:
// nodes that have agreed on a longer one grant nothing to this client.
func checkTTL(ttl, maxTTL time.Duration) error {
	if ttl <= maxTTL {
		return nil
	}
	return fmt.Errorf("redlock: %w", epoch.NewLimit(maxTTL, driver.Holder{}).Check(ttl))
}

// background runs f in a goroutine that Close waits for, and returns false if the
// driver is closed.
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

// resident is how many goroutines wait for the next request. A new one has to grow its stack first.
const resident = 8

// serve runs f, and then what else is to be run in the background, if few others wait for that.
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

// Close implements driver.Store. It waits until requests that are under way have
// ended, for one node timeout at most.
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
	cut := time.AfterFunc(d.grace(idle, minDebtPause), d.cut)
	d.work.Wait()
	cut.Stop()
	d.cut()
	errs := make([]error, len(d.members))
	if first {
		var closing sync.WaitGroup
		for i, m := range d.members {
			if r, ok := m.Node.(*redisNode); ok {
				r.deaf = m.owes.since != 0 // nothing is under way any more
			}
			closing.Go(func() { errs[i] = m.Node.Close() })
		}
		closing.Wait()
	}
	return errors.Join(errs...)
}
