// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// mutant is package memlock with one mistake. A nil function makes none.
type mutant struct {
	name    string
	breaks  []string // tests that must fail, among others
	reserve uint64   // tokens are set aside after that of each grant; 0: grants are no driver.Reserver

	open    func(*memlock.Store) *memlock.Store // the store of the next participant
	request func(*driver.Request)               // changes a copy
	acquire func(ctx context.Context, d *mutantDriver, req *driver.Request, do acquireFunc) (driver.Grant, error)
	wait    func(ctx context.Context, d *mutantDriver, req *driver.Request) (driver.Grant, error)
	close   func(*mutantDriver)
	crash   func(*mutantDriver) // before the participant is gone

	token   func(*mutantGrant) uint64
	since   func(*mutantGrant) driver.Instant
	renew   func(context.Context, *mutantGrant, time.Duration) (driver.Instant, error)
	release func(context.Context, *mutantGrant) error
	aside   func(*mutantGrant) uint64                                                            // Reserved, if reserve is set
	lower   func(ctx context.Context, g *mutantGrant, req *driver.Request) (driver.Grant, error) // Downgrade
	onLost  func(*mutantGrant, func(error))

	inspect func(*driver.Info, error) (*driver.Info, error)
	list    func([]*driver.Info) []*driver.Info
	breakIt func(ctx context.Context, d *mutantDriver, name, lease string, by *driver.Holder, why string) error
	wanted  func(g *mutantGrant, r driver.Recallable, f func(driver.Recall)) // OnWanted
	adopt   func(ctx context.Context, d *mutantDriver, name, lease string) (driver.Grant, error)
}

type (
	acquireFunc func(context.Context, *driver.Request) (driver.Grant, error)

	fullDriver interface {
		driver.Queuer
		driver.Inspector
	}
	fullGrant interface {
		driver.Grant
		driver.Notifier
		driver.Downgrader
	}
)

// harness returns a harness in which the mutant is the store.
func (m *mutant) harness() *Harness {
	h := Harness{
		Bubble:    func(*testing.T, func(*testing.T)) { panic("the tests of mutants make the bubble") },
		Histories: 60,
		Start: func(testing.TB) Store {
			shared, all := new(memlock.Store), new(grantList)
			return Store{
				Open: func(testing.TB) driver.Driver {
					s := shared
					if m.open != nil {
						s = m.open(s)
					}
					d := m.driver(s)
					d.all = all
					return d
				},
				Late: func(_ testing.TB, late time.Duration) driver.Driver {
					d := m.driver(shared)
					d.late = late
					return d
				},
				Crash: func(_ testing.TB, d driver.Driver) {
					dead := d.(*mutantDriver)
					if m.crash != nil {
						m.crash(dead)
					}
					dead.store.Crash(dead.inner)
				},
			}
		},
	}
	return h.withDefaults()
}

func (m *mutant) driver(s *memlock.Store) *mutantDriver {
	d := &mutantDriver{m: m, store: s, inner: s.Driver().(fullDriver), seen: make(map[string]int)}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// mutantDriver is a participant.
type mutantDriver struct {
	m      *mutant
	store  *memlock.Store
	inner  fullDriver
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	ghosts sync.WaitGroup
	all    *grantList    // nil in tests that need none
	late   time.Duration // of answers

	mu   sync.Mutex
	seen map[string]int // for the mutants' use
}

func (d *mutantDriver) count(key string, add int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen[key] += add
	return d.seen[key]
}

func (d *mutantDriver) Recalls() bool { return true }

func (d *mutantDriver) Guarantees() driver.Guarantees { return d.inner.Guarantees() }

func (d *mutantDriver) Close() error {
	d.cancel()
	d.ghosts.Wait()
	if d.m.close != nil {
		d.m.close(d)
		return nil
	}
	return d.inner.Close()
}

func (d *mutantDriver) TryAcquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	return d.do(ctx, req, func(ctx context.Context, req *driver.Request) (driver.Grant, error) {
		defer time.Sleep(d.late)
		return d.inner.TryAcquire(ctx, req)
	})
}

func (d *mutantDriver) Acquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	if d.m.wait != nil {
		return d.m.wait(ctx, d, req)
	}
	return d.do(ctx, req, d.inner.Acquire)
}

func (d *mutantDriver) do(ctx context.Context, req *driver.Request, do acquireFunc) (driver.Grant, error) {
	if d.m.request != nil {
		changed := *req
		d.m.request(&changed)
		req = &changed
	}
	if d.m.acquire != nil {
		return d.m.acquire(ctx, d, req, do)
	}
	return d.grant(req)(do(ctx, req))
}

// grant wraps the grant of req.
func (d *mutantDriver) grant(req *driver.Request) func(driver.Grant, error) (driver.Grant, error) {
	return func(g driver.Grant, err error) (driver.Grant, error) {
		err = d.spreadError(err)
		if g == nil {
			return nil, err
		}
		d.all.add(req.Name, g)
		wrapped := &mutantGrant{fullGrant: g.(fullGrant), d: d, req: req, began: driver.Now(), nth: uint64(d.count("grants of "+req.Lease, 1))}
		if r, ok := g.(driver.Recallable); ok && req.Keeps {
			return recallingGrant{wrapped, r, g.(driver.Reserver)}, err
		}
		if d.m.reserve > 0 {
			info, _ := d.inner.Inspect(context.Background(), req.Name)
			return reservingGrant{wrapped, info != nil && len(info.Waiters) > 0}, err
		}
		return wrapped, err
	}
}

// spread makes room for those set aside between the tokens that are shown.
func (d *mutantDriver) spread(infos ...*driver.Info) {
	for _, info := range infos {
		info.Token *= driver.Token(d.m.reserve + 1)
		for i := range info.Holders {
			info.Holders[i].Token *= driver.Token(d.m.reserve + 1)
		}
	}
}

func (d *mutantDriver) spreadError(err error) error {
	var held *driver.HeldError
	if errors.As(err, &held) {
		d.spread(held.Info)
	}
	return err
}

func (d *mutantDriver) Inspect(ctx context.Context, name string) (*driver.Info, error) {
	info, err := d.inner.Inspect(ctx, name)
	if err == nil {
		d.spread(info)
	}
	if d.m.inspect != nil {
		return d.m.inspect(info, err)
	}
	return info, err
}

func (d *mutantDriver) List(ctx context.Context, prefix string) ([]*driver.Info, error) {
	if d.m.list != nil {
		all, err := d.inner.List(ctx, "")
		return d.m.list(all), err
	}
	infos, err := d.inner.List(ctx, prefix)
	d.spread(infos...)
	return infos, err
}

func (d *mutantDriver) Break(ctx context.Context, name, lease string, by *driver.Holder, why string) error {
	if d.m.breakIt != nil {
		return d.m.breakIt(ctx, d, name, lease, by, why)
	}
	return d.inner.Break(ctx, name, lease, by, why)
}

func (d *mutantDriver) Adopt(ctx context.Context, name, lease string) (driver.Grant, error) {
	if d.m.adopt != nil {
		return d.m.adopt(ctx, d, name, lease)
	}
	g, err := d.inner.(driver.Adopter).Adopt(ctx, name, lease)
	if err != nil {
		return nil, err
	}
	return spreadGrant{g, d.m.reserve + 1}, nil
}

// spreadGrant is a grant of another participant, with its token as that shows it.
type spreadGrant struct {
	driver.Grant
	room uint64
}

func (g spreadGrant) Token() uint64 { return g.Grant.Token() * g.room }

// breakAny ends whatever lease holds name.
func (d *mutantDriver) breakAny(ctx context.Context, name string, by *driver.Holder, why string) error {
	info, err := d.inner.Inspect(ctx, name)
	if err != nil || len(info.Holders) == 0 {
		return err
	}
	return d.inner.Break(ctx, name, info.Holders[0].Lease, by, why)
}

type mutantGrant struct {
	fullGrant
	d     *mutantDriver
	req   *driver.Request
	began driver.Instant
	told  func(error)
	nth   uint64 // of the grants of its attempt, from 1
}

func (g *mutantGrant) Token() uint64 {
	if g.d.m.token != nil {
		return g.d.m.token(g)
	}
	return g.fullGrant.Token() * (g.d.m.reserve + 1)
}

// recallingGrant is a mutantGrant that its client may keep.
type recallingGrant struct {
	*mutantGrant
	recall driver.Recallable
	tokens driver.Reserver
}

func (g recallingGrant) Reserved() (tokens uint64, others bool) {
	tokens, others = g.tokens.Reserved()
	if g.d.m.aside != nil {
		tokens = g.d.m.aside(g.mutantGrant)
	}
	return tokens, others
}

func (g recallingGrant) OnWanted(f func(driver.Recall)) {
	if g.d.m.wanted != nil {
		g.d.m.wanted(g.mutantGrant, g.recall, f)
		return
	}
	g.recall.OnWanted(f)
}

// reservingGrant is a mutantGrant with tokens set aside.
type reservingGrant struct {
	*mutantGrant
	others bool
}

func (g reservingGrant) Reserved() (tokens uint64, others bool) {
	if g.d.m.aside != nil {
		return g.d.m.aside(g.mutantGrant), g.others
	}
	return g.d.m.reserve, g.others
}

func (g *mutantGrant) Since() driver.Instant {
	if g.d.m.since != nil {
		return g.d.m.since(g)
	}
	return g.fullGrant.Since()
}

func (g *mutantGrant) Renew(ctx context.Context, ttl time.Duration) (driver.Instant, error) {
	if g.d.m.renew != nil {
		return g.d.m.renew(ctx, g, ttl)
	}
	defer time.Sleep(g.d.late)
	return g.fullGrant.Renew(ctx, ttl)
}

func (g *mutantGrant) Release(ctx context.Context) error {
	if g.d.m.release != nil {
		return g.d.m.release(ctx, g)
	}
	return g.fullGrant.Release(ctx)
}

func (g *mutantGrant) Downgrade(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	if g.d.m.lower != nil {
		return g.d.m.lower(ctx, g, req)
	}
	return g.d.grant(req)(g.fullGrant.Downgrade(ctx, req))
}

func (g *mutantGrant) OnLost(f func(error)) {
	if g.d.m.onLost != nil {
		g.d.m.onLost(g, f)
		return
	}
	g.fullGrant.OnLost(f)
}

// grantList is every grant of a store, by name.
type grantList struct {
	mu     sync.Mutex
	grants map[string][]driver.Grant
}

func (l *grantList) add(name string, g driver.Grant) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.grants == nil {
		l.grants = make(map[string][]driver.Grant)
	}
	l.grants[name] = append(l.grants[name], g)
}

func (l *grantList) on(name string) []driver.Grant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.grants[name])
}
