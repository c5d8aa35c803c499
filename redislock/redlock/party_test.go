// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"sync"

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

// Stats are what a store has done.
type Stats struct{ Grants, Rounds, Splits, Looks int64 }

func (d *store) Stats() Stats {
	return Stats{d.grants.Load(), d.rounds.Load(), d.splits.Load(), d.looks.Load()}
}
