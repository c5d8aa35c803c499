// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
)

// grant is a lease that a client has acquired.
type grant struct {
	*participant.Lease
	lease string // by which nodes know it
	token uint64
	until driver.Instant // until which it is trusted, unless it is renewed
}

// party is the client half of a store. Tests call its methods as those of the store.
type party struct {
	*participant.Participant
	begin   sync.Once
	handles sync.Map // by lease
}

// parties are all of them, by store.
var parties sync.Map

func (d *store) party() *party {
	known, _ := parties.LoadOrStore(d, new(party))
	p := known.(*party)
	p.begin.Do(func() { p.Participant = participant.New(recorder{d, p}, participant.Options{}) })
	return p
}

// recorder is a store that keeps handles.
type recorder struct {
	*store
	p *party
}

func (r recorder) Ask(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	ans, err := r.store.Ask(ctx, req)
	r.p.handles.Store(req.Lease, ans.Handle)
	return ans, err
}

func (p *party) grant(l *participant.Lease, err error) (*grant, error) {
	if err != nil {
		return nil, err
	}
	h, _ := p.handles.Load(l.ID())
	has := h.(*lease).standing()
	return &grant{Lease: l, lease: has.claim.lease, token: l.Token(), until: trust(l.Since(), h.(*lease).req.TTL)}, nil
}

// TryAcquire and Acquire are those of the client half.
func (d *store) TryAcquire(ctx context.Context, req *driver.Request) (*grant, error) {
	p := d.party()
	l, err := p.Participant.TryAcquire(ctx, req)
	return p.grant(l, err)
}

func (d *store) Acquire(ctx context.Context, req *driver.Request) (*grant, error) {
	p := d.party()
	l, err := p.Participant.Acquire(ctx, req)
	return p.grant(l, err)
}

// get returns a lease that is granted at once.
func get(t testing.TB, d *store, req *driver.Request) *grant {
	t.Helper()
	g, err := d.TryAcquire(t.Context(), req)
	if err != nil {
		t.Fatalf("TryAcquire = %v; want a lease", err)
	}
	return g
}

// await returns a lease that is granted sooner or later.
func await(t testing.TB, d *store, req *driver.Request) *grant {
	t.Helper()
	g, err := d.Acquire(t.Context(), req)
	if err != nil {
		t.Fatalf("Acquire = %v; want a lease", err)
	}
	return g
}

// renew and release expect that a lease was not lost.
func renew(t testing.TB, g *grant, ttl time.Duration) {
	t.Helper()
	if _, err := g.Renew(t.Context(), ttl); err != nil {
		t.Errorf("Renew = %v", err)
	}
}

func release(t testing.TB, g interface{ Release(context.Context) error }) {
	t.Helper()
	if err := g.Release(t.Context()); err != nil {
		t.Errorf("Release = %v", err)
	}
}
