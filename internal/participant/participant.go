// SPDX-License-Identifier: Apache-2.0

// Package participant is the client half of a lock, written once for all stores.
//
// A driver.Store sends requests and reports events. A Participant keeps what the client knows about its
// leases and its places in queues. It decides when a waiter looks, whether to trust a message that hands
// a name over, what a request without an answer may have left in the store, how long a waiter bears an
// outage, and when a lease is lost.
//
// Participant.mu guards all leases. Events take mu, so the participant calls no method of the store while
// it holds mu: the store may report an event under a lock of its own.
package participant

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Participant is one client of a store.
type Participant struct {
	store    driver.Store
	caps     driver.Caps
	opts     Options
	ctx      context.Context // ends with Stop
	cancel   context.CancelFunc
	calls    sync.WaitGroup // calls that may wait, and the releases that they left in the background
	work     sync.WaitGroup // everything else in the background
	timeouts timeouts
	tokens   tokens

	running running

	answered atomic.Bool // the store has answered once

	mu          sync.Mutex
	leases      map[string]*Lease    // by id, from the first request on
	clocks      map[string]*clock    // by server
	obstacles   map[string]*obstacle // by name, while they are under way
	waiters     uint64               // so far
	toldRefusal driver.Instant       // when News last got a refusal
	confirming  bool                 // confirmAll runs
	random      *rand.Rand
}

// Options are the options of a participant. All may be zero.
type Options struct {
	Random   rand.Source       // of pauses; nil means the clock, and so the same pauses in every bubble of fake time
	News     func(driver.News) // called when something happens to the store; must not block
	NotEnded func(error)       // called when the participant gives up ending a lease, which the store may still have
}

// New returns the client half of a store. It owns the store and closes it.
func New(store driver.Store, opts Options) *Participant {
	if opts.Random == nil {
		opts.Random = rand.NewPCG(uint64(time.Now().UnixNano()), 0)
	}
	p := &Participant{
		store: store, caps: store.Caps(), opts: opts,
		leases: make(map[string]*Lease), clocks: make(map[string]*clock), obstacles: make(map[string]*obstacle), random: rand.New(opts.Random),
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	store.Listen(p.hear)
	return p
}

// Store returns the wire of the participant.
func (p *Participant) Store() driver.Store { return p.store }

// Caps returns what the store promises and can do.
func (p *Participant) Caps() driver.Caps { return p.caps }

// Inspect asks the store who holds name and who waits for it. It returns errors.ErrUnsupported if the store cannot say.
func (p *Participant) Inspect(ctx context.Context, name string) (*driver.Info, error) {
	if err := p.shows(ctx); err != nil {
		return nil, err
	}
	info, err := p.store.Inspect(ctx, name)
	return info, looked(err)
}

func (p *Participant) List(ctx context.Context, prefix string) ([]*driver.Info, error) {
	if err := p.shows(ctx); err != nil {
		return nil, err
	}
	infos, err := p.store.List(ctx, prefix)
	return infos, looked(err)
}

func (p *Participant) Break(ctx context.Context, name, lease string, by *driver.Holder, why string) error {
	if err := p.shows(ctx); err != nil {
		return err
	}
	if err := p.store.Break(ctx, name, lease, by, why); err != nil {
		return Worded(driver.FailureOf(err))
	}
	return nil
}

// Describe asks the store for its state. It works after Stop too.
func (p *Participant) Describe(ctx context.Context) (*driver.StoreInfo, error) {
	info, err := p.store.Describe(ctx)
	return info, looked(err)
}

// Examine asks the store for faults of its servers and settings.
func (p *Participant) Examine(ctx context.Context) []driver.Finding { return p.store.Examine(ctx) }

// Stop makes calls that wait return driver.ErrClosed. From then on requests that end leases share closeTimeout.
// Leases stay as they are.
func (p *Participant) Stop() {
	p.mu.Lock() // no call and no work begins after this
	defer p.mu.Unlock()
	if p.ctx.Err() == nil {
		p.timeouts.close() // before ctx ends, because endAgain uses it then
		p.cancel()
	}
}

// Close stops the participant, waits for its work in the background, and closes the store.
func (p *Participant) Close() error {
	p.Stop()
	p.calls.Wait()
	p.work.Wait()
	p.timeouts.stop()
	return p.store.Close()
}

// spread returns a random duration in [0, d).
func (p *Participant) spread(d time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Duration(p.random.Int64N(int64(max(d, 1))))
}

// errClosed is the error of calls of a closed participant.
var errClosed = fmt.Errorf("%w: %w", driver.ErrUnavailable, driver.ErrClosed)

func (p *Participant) usable(ctx context.Context) error {
	if p.ctx.Err() != nil { // first: Stop also ends the contexts of calls
		return errClosed
	}
	return ctx.Err()
}

// shows returns an error if the store cannot be asked who holds what.
func (p *Participant) shows(ctx context.Context) error {
	if err := p.usable(ctx); err != nil || p.caps.Shows {
		return err
	}
	return fmt.Errorf("this store cannot say who holds what: %w", errors.ErrUnsupported)
}

// inBackground runs f, unless the participant is closed. The caller holds mu.
func (p *Participant) inBackground(f func()) {
	if p.ctx.Err() == nil {
		p.work.Go(f)
	}
}

// certain reports whether err itself says what has become of the request.
func certain(err error) bool {
	for _, known := range []error{
		driver.ErrHeld, driver.ErrLost, driver.ErrReleased, driver.ErrUnavailable, driver.ErrUncertain, driver.ErrDisagree,
		driver.ErrDenied, errors.ErrUnsupported, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	var slots *driver.SlotsError
	return errors.As(err, &slots)
}

// looked returns the error of a request that records nothing.
func looked(err error) error {
	if err == nil {
		return nil
	}
	f := driver.FailureOf(err)
	f.Maybe = false
	return Worded(f)
}

// Worded returns the error of a failed request. It is also ErrUncertain or ErrUnavailable unless f.Err says what has
// become of the request.
func Worded(f driver.Failure) error {
	switch {
	case certain(f.Err):
		return f.Err
	case f.Maybe:
		return fmt.Errorf("%w: %w", driver.ErrUncertain, f.Err)
	}
	return fmt.Errorf("%w: %w", driver.ErrUnavailable, f.Err)
}
